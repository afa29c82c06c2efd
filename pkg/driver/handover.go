package driver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/version"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/succession"
)

const (
	// lockPoll is the pause between two tries to lock the state directory. Nobody serves pods
	// between the end of one driver and the lock of the next.
	lockPoll = 5 * time.Millisecond
	// socketPoll and socketWait are for a driver without a socket: it may be one that is being
	// started or ends, and has none only for a moment.
	socketPoll = 50 * time.Millisecond
	socketWait = 5 * time.Second
	// helloPause is the pause between two questions to a driver that does not answer.
	helloPause = time.Second
	// helloWait is how long a driver may leave a question without an answer. After that the
	// successor is ready, so that the rollout deletes the other driver's pod.
	helloWait = 10 * time.Second
	// quietTries is how often a driver may refuse because it runs operations. After that it
	// is asked to end them.
	quietTries = 4
	// maxTakeOvers is how often a driver takes the directory from the same other one, which gets it back when
	// this one ends. After that it waits for the end of the other.
	maxTakeOvers = 2
	// lateWait is how long a successor waits for the runtime to connect it. After that it asks
	// the other driver without a connection.
	lateWait = 20 * time.Second
	// syncMargin is the part of the runtime's limit for Synchronize that is left for
	// everything but the end of the other driver.
	syncMargin = 500 * time.Millisecond
)

// successor gets the state directory for a driver: at once if it is free, and otherwise from the
// driver that has it. Its methods call begin once the driver has the directory.
type successor struct {
	*node
	self succession.Driver
	lock *succession.Lock
	// taken is closed when the driver has the directory and begin has returned.
	taken chan struct{}
	// asked is true once the other driver has agreed to hand over.
	asked atomic.Bool
	// refusals counts requests that were refused.
	refusals atomic.Int32
	// waiting describes what the driver waits for.
	waiting atomic.Pointer[waiting]
}

// waiting describes why a driver has no state directory yet.
type waiting struct {
	reason string
	// ready is true if the driver can do no more until the other one ends, which cannot be
	// asked. A rollout ends it as soon as this driver is ready.
	ready bool
}

// newSuccessor returns a successor that has not tried yet.
func newSuccessor(n *node) *successor {
	s := &successor{node: n, self: succession.Driver{PodUID: n.cfg.PodUID, Program: version.Get().Version}, taken: make(chan struct{})}
	s.wait("the driver is being started", false)
	return s
}

func (s *successor) wait(reason string, ready bool) { s.waiting.Store(&waiting{reason, ready}) }

// has reports whether the driver has the directory.
func (s *successor) has() bool { return isClosed(s.taken) }

// try takes the directory if it is free, and reports whether the driver has it.
func (s *successor) try(ctx context.Context, begin func(context.Context) error) (bool, error) {
	lock, err := succession.TryLock(s.cfg.StateDir)
	if errors.Is(err, succession.ErrHeld) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	s.lock = lock
	if err := s.record(); err != nil {
		return false, err
	}
	if err := begin(ctx); err != nil {
		return false, err
	}
	close(s.taken)
	return true, nil
}

// record records that the driver has the directory.
func (s *successor) record() error {
	record, err := s.nextRecord()
	if err != nil {
		return err
	}
	return record.Write(s.cfg.StateDir)
}

// nextRecord returns the record of the directory once the driver has it.
func (s *successor) nextRecord() (succession.Record, error) {
	before, err := succession.ReadRecord(s.cfg.StateDir)
	if err != nil {
		return succession.Record{}, err
	}
	return before.TakenBy(s.self, s.asked.Load(), time.Now().UTC()), nil
}

// rehearse returns the error with which the driver would fail after the other has handed over. It changes
// nothing that the other uses.
func (s *successor) rehearse() error {
	record, err := s.nextRecord()
	if err == nil {
		err = record.Try(s.cfg.StateDir)
	}
	if err == nil {
		err = s.tryBegin()
	}
	if err != nil {
		return fmt.Errorf("this driver cannot take over, and leaves the node to the other: %w", err)
	}
	return nil
}

// release gives the directory to the next driver.
func (s *successor) release() {
	if s.lock != nil {
		s.lock.Release()
	}
}

// await takes the directory as soon as it is free.
func (s *successor) await(ctx context.Context, begin func(context.Context) error) error {
	for !s.has() {
		if had, err := s.try(ctx, begin); had || err != nil {
			return err
		}
		if !background.Sleep(ctx, lockPoll) {
			return fmt.Errorf("waiting for the driver that uses %s: %w", s.cfg.StateDir, context.Cause(ctx))
		}
	}
	return nil
}

// canAsk waits until the driver that has the directory agrees to be asked, and reports whether it
// does. It returns false if that driver has superseded this one, has no socket, or does not answer,
// and if this driver has the directory, because it became free meanwhile.
func (s *successor) canAsk(ctx context.Context, begin func(context.Context) error) (bool, error) {
	if s.self.PodUID == "" {
		s.wait("another driver uses the state directory; this one has no --pod-uid, and waits until it ends", false)
		return false, nil
	}
	record, err := succession.ReadRecord(s.cfg.StateDir)
	if err != nil {
		return false, err
	}
	if record.IsSuperseded(s.self) {
		s.wait("this driver has handed over to that of pod "+record.Holder.PodUID+", and waits until it ends", true) // as handedOver of cmd/nadra-node
		return false, nil
	}
	if n := record.LostBy(s.self); n >= maxTakeOvers {
		s.wait(fmt.Sprintf("this driver has taken over from that of pod %s %d times and has ended each time; it waits until the other ends: "+
			"read the log of its earlier containers, then delete its pod, or go back to the version of the other", record.Holder.PodUID, n), false)
		return false, nil
	}
	for began := time.Now(); ; {
		if had, err := s.try(ctx, begin); had || err != nil {
			return false, err
		}
		pause := helloPause
		answer, err := s.ask(ctx, succession.Hello, 0)
		switch {
		case err == nil:
			s.wait("the driver of pod "+answer.Holder.PodUID+" is asked to hand over", false)
			return true, nil
		case errors.Is(err, succession.ErrNoSocket) && time.Since(began) < socketWait:
			pause = socketPoll
		case errors.Is(err, succession.ErrNoSocket):
			s.wait("the driver that uses the state directory cannot hand over; this one has read what it needs, and continues when the other ends", true)
			return false, nil
		case time.Since(began) > helloWait:
			s.wait("the driver that uses the state directory does not answer; this one has read what it needs, and continues when the other ends: "+err.Error(), true)
			return false, nil
		}
		if !background.Sleep(ctx, pause) {
			return false, context.Cause(ctx)
		}
	}
}

// ask asks the driver that has the directory.
func (s *successor) ask(ctx context.Context, manner succession.Manner, within time.Duration) (succession.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, within+helloPause)
	defer cancel()
	return succession.Ask(ctx, s.cfg.StateDir, succession.Request{By: s.self, Manner: manner, Within: within})
}

// handOver makes the other driver hand over within a time, and returns when this driver has the
// directory. await takes it meanwhile. A driver that runs operations on pods is asked again later,
// and in the end to stop them.
func (s *successor) handOver(ctx context.Context, within time.Duration) error {
	if s.has() {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("the other driver has not ended within %s", within))
	defer cancel()
	if !s.asked.Load() {
		if err := s.askToEnd(ctx, within-syncMargin); err != nil {
			return err
		}
	}
	agreed := time.Now()
	select {
	case <-s.taken:
		klog.FromContext(ctx).Info("Took over from another driver", "duration", time.Since(agreed))
		return nil
	case <-ctx.Done():
		return fmt.Errorf("taking over: %w", context.Cause(ctx))
	}
}

// askToEnd asks the other driver to hand over within a time. What this one has tried at its start it tries
// again: the other may have written records of a later version since.
func (s *successor) askToEnd(ctx context.Context, within time.Duration) error {
	if err := s.rehearse(); err != nil {
		s.fail(err) // so that the kubelet asks the other driver
		return err
	}
	manner := succession.WhenQuiet
	if s.refusals.Load() >= quietTries {
		manner = succession.Now
	}
	s.asked.Store(true) // first, because await may see the end of the other driver before its answer is read
	answer, err := s.ask(ctx, manner, within)
	if err == nil && !answer.HandsOver {
		err = fmt.Errorf("the other driver does not hand over yet: %s", answer.Reason)
	}
	if err != nil && !s.has() {
		s.asked.Store(false)
		s.refusals.Add(1)
		s.wait(err.Error(), false)
		return err
	}
	return nil
}

// late asks the other driver without a connection to the runtime, if the runtime does not make
// one in time. It returns when this driver has the directory.
func (s *successor) late(ctx context.Context) {
	select {
	case <-s.taken:
		return
	case <-ctx.Done():
		return
	case <-time.After(lateWait):
	}
	for !s.has() && ctx.Err() == nil {
		if err := s.handOver(ctx, helloWait); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Taking over failed; trying again", "retryAfter", helloPause)
			background.Sleep(ctx, helloPause)
		}
	}
}

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
// than the successor can wait. It never hands over to itself: await may have taken the directory of a driver that has
// died, after this driver began to ask.
func (d *Driver) answerSuccessor(ctx context.Context, r succession.Request) succession.Answer {
	if r.Manner == succession.Hello {
		return succession.Answer{}
	}
	if r.By.PodUID != "" && r.By.PodUID == d.cfg.PodUID {
		return succession.Answer{Reason: "a driver of the same pod asks"}
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
	if n := d.plugin.calls.close(); n > 0 {
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
