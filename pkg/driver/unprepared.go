package driver

import (
	"sync"
	"time"
)

// unpreparedLife is how long the driver remembers that a claim was unprepared. A call of
// Prepare that the kubelet no longer waits for lives 45 s at most.
const unpreparedLife = 5 * time.Minute

// unpreparedClaims remembers which claims were unprepared for which pod, so that a Prepare
// that was overtaken does not record them again: nobody would unprepare them then. A claim
// is prepared as usual for its next pod. Nothing is on disk, because a call does not outlive
// the process.
type unpreparedClaims struct {
	mu    sync.Mutex
	times map[unpreparedClaim]time.Time
}

type unpreparedClaim struct{ claimUID, podUID string }

// add remembers a claim, and forgets claims after unpreparedLife.
func (u *unpreparedClaims) add(claimUID, podUID string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for k, at := range u.times {
		if now.Sub(at) > unpreparedLife {
			delete(u.times, k)
		}
	}
	u.times[unpreparedClaim{claimUID, podUID}] = now
}

// has reports whether a claim was unprepared for a pod.
func (u *unpreparedClaims) has(claimUID, podUID string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	at, found := u.times[unpreparedClaim{claimUID, podUID}]
	return found && now.Sub(at) <= unpreparedLife
}
