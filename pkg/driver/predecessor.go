package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/succession"
)

const (
	// quietPoll is the pause between two looks whether the driver is quiet.
	quietPoll = 2 * time.Millisecond
	// handOverDrain is the time that operations have to end when the driver has to hand over
	// while they run.
	handOverDrain = time.Second
	// ownEndWait is how long a driver that has handed over leaves the state directory to its
	// successor, which may be restarted.
	ownEndWait = 3 * time.Second
	ownEndPoll = 200 * time.Millisecond
)

// ErrHandedOver is why a driver has ended that another has asked to hand over.
var ErrHandedOver = errors.New("handed over to another driver")

// answerSuccessor answers a driver that wants the state directory. It hands over only while it
// runs no operation on a pod, no call of the kubelet waits for it, and no network-status is to be
// written: then the successor continues where this driver ends. It refuses if that takes longer
// than the successor can wait.
func (d *Driver) answerSuccessor(ctx context.Context, r succession.Request) succession.Answer {
	if r.Manner == succession.Hello {
		return succession.Answer{}
	}
	ctx, cancel := context.WithTimeout(ctx, r.Within)
	defer cancel()
	for busy := d.busy(); busy != "" && r.Manner != succession.Now; busy = d.busy() {
		if !background.Sleep(ctx, quietPoll) {
			return succession.Answer{Reason: busy}
		}
	}
	d.fail(fmt.Errorf("%w: to that of pod %s, %s", ErrHandedOver, r.By.PodUID, r.By.Program))
	return succession.Answer{HandsOver: true}
}

// busy returns what a successor has to wait for, or "". It then lets no call of the kubelet begin.
func (d *Driver) busy() string {
	if n := d.operations.Running(); n > 0 {
		return fmt.Sprintf("it runs %d operations on pods", n)
	}
	if n := d.networkStatus.Queue(time.Now()).Length; n > 0 {
		return fmt.Sprintf("it writes the network-status of %d pods", n)
	}
	if n := d.calls.close(); n > 0 {
		return fmt.Sprintf("it answers %d calls of the kubelet", n)
	}
	return ""
}

// kubeletCalls counts the kubelet's calls that run, and lets none begin once it is closed.
type kubeletCalls struct {
	mu      sync.Mutex
	running int
	closed  bool
}

// begin counts a call, and returns the function that ends it. When the driver is handing over,
// begin waits until the kubelet's connection is closed: the kubelet then asks the successor.
func (c *kubeletCalls) begin(ctx context.Context) (end func(), err error) {
	c.mu.Lock()
	closed := c.closed
	if !closed {
		c.running++
	}
	c.mu.Unlock()
	if closed {
		<-ctx.Done()
		return nil, ErrHandedOver
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running--
	}, nil
}

// close lets no call begin any more if none runs, and returns how many run.
func (c *kubeletCalls) close() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = c.running == 0
	return c.running
}

// AwaitSuccessorEnd returns nil when no driver uses a state directory any more that this process
// has handed over.
func AwaitSuccessorEnd(ctx context.Context, dir string) error {
	for pause := ownEndWait; background.Sleep(ctx, pause); pause = ownEndPoll {
		lock, err := succession.TryLock(dir)
		if errors.Is(err, succession.ErrHeld) {
			continue
		}
		if err == nil {
			lock.Release()
		}
		return err
	}
	return context.Cause(ctx)
}
