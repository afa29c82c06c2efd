package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	cnitypes "github.com/containernetworking/cni/pkg/types"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

// clinic is a publisher's bench whose plugins answer to STATUS as told. It
// follows changes as the driver does.
type clinic struct {
	*bench
	mu sync.Mutex
	// sick are the answers by the network's CNI name; hangs are those without.
	sick  map[string]error
	hangs map[string]bool
	// asked are the STATUS by CNI name; most is how many ran at a time.
	asked         map[string]int
	running, most int
	told          []string
}

// inClinic runs a test in a bubble of its own time.
func inClinic(t *testing.T, test func(*testing.T, *clinic)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &clinic{bench: newBench(t), sick: map[string]error{}, hangs: map[string]bool{}, asked: map[string]int{}}
		base, stop := context.WithCancel(t.Context())
		work := &background{base: base}
		c.health = newHealth(work, c.status)
		c.health.changed = c.ask
		c.health.tell = func(_ context.Context, ref attachment.NetworkRef, uid types.UID, why error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.told = append(c.told, fmt.Sprintf("%s %s: %v", ref, uid, why))
		}
		c.publish = func(ctx context.Context, pools poolMaker) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.take(ctx, pools)
		}
		c.links = func() (map[string]link, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return maps.Clone(c.hostLinks), nil
		}
		test(t, c)
		stop()
		work.group.Wait()
	})
}

// begin publishes as a driver does that has just been started.
func (c *clinic) begin(t *testing.T) {
	t.Helper()
	if _, err := c.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx := c.health.work.base
	c.health.work.group.Go(func() {
		if err := c.run(ctx); err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
}

func (c *clinic) status(ctx context.Context, conflist json.RawMessage) error {
	var conf struct{ Name string }
	if err := json.Unmarshal(conflist, &conf); err != nil {
		return err
	}
	c.mu.Lock()
	c.asked[conf.Name]++
	c.running++
	c.most = max(c.most, c.running)
	err, hangs := c.sick[conf.Name], c.hangs[conf.Name]
	c.mu.Unlock()
	if hangs {
		<-ctx.Done()
		err = fmt.Errorf("plugin hangs: %w", context.Cause(ctx))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	return err
}

func (c *clinic) set(name string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sick[name] = err
}

// master has the host's interface lan0 come or go.
func (c *clinic) master(there bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hostLinks["lan0"] = (link{}); !there {
		delete(c.hostLinks, "lan0")
	}
}

// add creates a NAD, or changes it, and tells the publisher.
func (c *clinic) add(name, config string) {
	n := nad(name, config)
	n.UID = types.UID(name + "-uid")
	_ = c.nads.Add(n)
	c.poke()
}

// after lets time pass, and what happens in it happen.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (c *clinic) published() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.calls) == 0 {
		return nil
	}
	return c.calls[len(c.calls)-1]
}

const (
	newConf = `{"cniVersion":"1.1.0","type":"bridge"}`
	oldConf = `{"cniVersion":"1.0.0","type":"bridge"}`
)

var notReady = cnitypes.NewError(cnitypes.ErrPluginNotAvailable, "daemon is down", "")

// A network is withdrawn when its plugins are not well and is back when they
// are, and each is told once.
func TestHealthDecidesWhatIsPublished(t *testing.T) {
	inClinic(t, func(t *testing.T, c *clinic) {
		c.add("old", oldConf)
		c.add("blue", newConf)
		c.begin(t)
		drivertest.Same(t, "at first", []string{"default-blue", "default-old"}, c.published())
		c.set("blue", notReady)
		after(statusEvery + settle)
		drivertest.Same(t, "while it is sick", []string{"default-old"}, c.published())
		if _, err := c.networks.usable(attachment.NetworkRef{Namespace: "default", Name: "blue"}); err != nil {
			t.Errorf("Prepare of an allocated claim is refused: %v", err)
		}
		after(10 * statusRetry)
		c.set("blue", nil)
		after(statusRetry + settle)
		drivertest.Same(t, "when it is well", []string{"default-blue", "default-old"}, c.published())
		drivertest.Same(t, "told", []string{"default/blue blue-uid: daemon is down", "default/blue blue-uid: <nil>"}, c.told)
		drivertest.Same(t, "networks that are asked", map[string]int{"blue": 13}, c.asked)
		drivertest.Same(t, "publications", 3, len(c.calls))
	})
}

// A network that is new is asked before anybody sees it.
func TestNewNetworkIsAskedFirst(t *testing.T) {
	inClinic(t, func(t *testing.T, c *clinic) {
		c.begin(t)
		c.set("sick", notReady)
		c.add("sick", newConf)
		c.add("well", newConf)
		after(3 * settle)
		drivertest.Same(t, "publications", [][]string{{}, {"default-well"}}, c.calls)
		drivertest.Same(t, "told", []string{"default/sick sick-uid: daemon is down"}, c.told)
	})
}

// A plugin that hangs is not well; others do not wait for it.
func TestHangingPluginIsNotWell(t *testing.T) {
	inClinic(t, func(t *testing.T, c *clinic) {
		c.hangs["stuck"] = true
		c.add("stuck", newConf)
		c.add("well", newConf)
		c.begin(t)
		drivertest.Same(t, "while it hangs at the start", nil, c.published())
		after(statusLimit + settle)
		drivertest.Same(t, "after its time", []string{"default-well"}, c.published())
		c.add("late", newConf)
		after(3 * settle)
		drivertest.Same(t, "a later one", []string{"default-late", "default-well"}, c.published())
		if len(c.told) != 1 || !strings.Contains(c.told[0], "one STATUS may take 5s") {
			t.Errorf("told %q", c.told)
		}
	})
}

// Plugins are asked a few at a time. Those whose turn does not come are
// published without an answer.
func TestManyHangingPlugins(t *testing.T) {
	inClinic(t, func(t *testing.T, c *clinic) {
		const many = 10 * statusAtOnce
		for i := range many {
			name := fmt.Sprintf("n%02d", i)
			c.hangs[name] = true
			c.add(name, newConf)
		}
		c.begin(t)
		after(firstAnswer + settle)
		drivertest.Same(t, "published without an answer", many-statusAtOnce, len(c.published()))
		after(10 * statusLimit)
		drivertest.Same(t, "published in the end", 0, len(c.published()))
		drivertest.Same(t, "at a time", statusAtOnce, c.most)
	})
}

// What is the same is asked once.
func TestIdenticalConflistsAreAskedOnce(t *testing.T) {
	inClinic(t, func(t *testing.T, c *clinic) {
		for i := range 5 {
			c.add(fmt.Sprintf("n%d", i), `{"cniVersion":"1.1.0","name":"shared","type":"bridge"}`)
		}
		c.begin(t)
		drivertest.Same(t, "published", 5, len(c.published()))
		drivertest.Same(t, "asked", map[string]int{"shared": 1}, c.asked)
		c.set("shared", notReady)
		after(statusEvery + settle)
		drivertest.Same(t, "published while it is sick", 0, len(c.published()))
		drivertest.Same(t, "told", 5, len(c.told))
	})
}

// A configuration that is changed is asked anew, and the network stays
// meanwhile; of one that is gone, or too old, nobody is asked any more.
func TestHealthFollowsChanges(t *testing.T) {
	inClinic(t, func(t *testing.T, c *clinic) {
		c.add("blue", newConf)
		c.begin(t)
		c.set("other", notReady)
		c.add("blue", `{"cniVersion":"1.1.0","name":"other","type":"bridge"}`)
		after(3 * settle)
		drivertest.Same(t, "publications", [][]string{{"default-blue"}, {}}, c.calls)
		c.add("blue", oldConf)
		after(3 * settle)
		drivertest.Same(t, "as an old one", []string{"default-blue"}, c.published())
		drivertest.Same(t, "told", []string{"default/blue blue-uid: daemon is down", "default/blue blue-uid: <nil>"}, c.told)
		before := maps.Clone(c.asked)
		after(10 * statusEvery)
		drivertest.Same(t, "asked", before, c.asked)
	})
}

// The master of a sick network goes and comes: it is told of once when it is
// well again.
func TestHealthOutlivesAnotherReason(t *testing.T) {
	inClinic(t, func(t *testing.T, c *clinic) {
		c.master(true)
		c.set("blue", notReady)
		c.add("blue", `{"cniVersion":"1.1.0","type":"macvlan","master":"lan0"}`)
		c.begin(t)
		c.master(false)
		c.poke()
		after(3 * settle)
		c.set("blue", nil)
		c.master(true)
		c.poke()
		after(3 * settle)
		drivertest.Same(t, "published", []string{"default-blue"}, c.published())
		drivertest.Same(t, "told", []string{"default/blue blue-uid: daemon is down", "default/blue blue-uid: <nil>"}, c.told)
	})
}

// eventsOf are the events that a driver has recorded.
func eventsOf(t *testing.T, d *Driver) []string {
	t.Helper()
	var out []string
	for {
		select {
		case e := <-d.events.EventRecorder.(*record.FakeRecorder).Events:
			out = append(out, e)
		default:
			slices.Sort(out)
			return out
		}
	}
}

func TestHealthIsReported(t *testing.T) {
	d := newDriver(t)
	blue := attachment.NetworkRef{Namespace: "default", Name: "blue"}
	d.reportHealth(t.Context(), blue, "uid", fmt.Errorf(`plugin type="p" failed (status): %w`, notReady))
	d.reportHealth(t.Context(), blue, "uid", errors.New(strings.Repeat("long ", 1000)))
	d.reportHealth(t.Context(), blue, "uid", nil)
	events := eventsOf(t, d)
	if len(events) != 3 {
		t.Fatalf("events %q", events)
	}
	drivertest.WantError(t, errors.New(events[0]), "Normal NetworkAvailable node node-1 offers the network again")
	drivertest.WantError(t, errors.New(events[1]), "Warning NetworkUnavailable node node-1 does not offer", "…; pods that have it keep it", "STATUS is asked every 5s")
	drivertest.WantError(t, errors.New(events[2]), `plugin type="p" failed (status): daemon is down (CNI code 50)`, "pods that have it keep it")
}
