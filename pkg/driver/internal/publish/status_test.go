package publish

import (
	"context"
	"encoding/json"
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

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// statusBench is a bench whose plugins answer STATUS as tests want. It follows changes as the
// driver does.
type statusBench struct {
	*bench
	mu sync.Mutex
	// answers has the answers by the network's CNI name, hangs the plugins that do not answer.
	answers map[string]error
	hangs   map[string]bool
	// asked counts the STATUS by CNI name. most is the number that ran at a time.
	asked         map[string]int
	running, most int
}

// inStatusBench runs a test in a bubble of its own time.
func inStatusBench(t *testing.T, test func(*testing.T, *statusBench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &statusBench{answers: map[string]error{}, hangs: map[string]bool{}, asked: map[string]int{}}
		work := background.NewGroup(t.Context())
		c.bench = newBench(t, func(o *Options) {
			k := &statusKernel{Kernel: drivertest.NewKernel(), status: c.status}
			o.Background, o.Status = work, operations.New(t.Context(), k, operations.Limits{}).Status
			healthChanged := o.HealthChanged
			o.HealthChanged = func(ctx context.Context, changes []HealthChange) {
				c.mu.Lock()
				defer c.mu.Unlock()
				healthChanged(ctx, changes)
			}
			o.Owned = func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.owned
			}
			o.Links = func() (map[string]offer.Link, error) {
				c.mu.Lock()
				defer c.mu.Unlock()
				return maps.Clone(c.hostLinks), nil
			}
		})
		test(t, c)
		work.Cancel(nil)
		work.Wait()
	})
}

// begin publishes as a driver does that was just started.
func (c *statusBench) begin(t *testing.T) {
	t.Helper()
	if err := c.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Background.Go(func(ctx context.Context) {
		err := c.Run(ctx, func(ctx context.Context, pools slicewriter.PoolMaker) error {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.take(ctx, pools)
		})
		if err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
}

// statusKernel has plugins with a STATUS.
type statusKernel struct {
	*drivertest.Kernel
	status func(context.Context, json.RawMessage) error
}

func (k *statusKernel) Status(ctx context.Context, conflist json.RawMessage) error {
	return k.status(ctx, conflist)
}

func (c *statusBench) status(ctx context.Context, conflist json.RawMessage) error {
	var conf struct{ Name string }
	if err := json.Unmarshal(conflist, &conf); err != nil {
		return err
	}
	c.mu.Lock()
	c.asked[conf.Name]++
	c.running++
	c.most = max(c.most, c.running)
	err, hangs := c.answers[conf.Name], c.hangs[conf.Name]
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

func (c *statusBench) set(name string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[name] = err
}

// master adds or removes the host's interface lan0.
func (c *statusBench) master(there bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.hostLinks["lan0"] = (offer.Link{}); !there {
		delete(c.hostLinks, "lan0")
	}
}

// lost returns the number of networks in the metrics' state lost.
func (c *statusBench) lost() int {
	out := map[metrics.Device]int{}
	c.View.Count(out)
	return out[metrics.Device{Pool: "networks", State: "lost"}]
}

// own makes the node nadra's, or not.
func (c *statusBench) own(owned bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.owned = owned
}

// reported returns the reported changes of health.
func (c *statusBench) reported() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.health)
}

// add creates or changes a NAD, and triggers the publisher.
func (c *statusBench) add(name, config string) {
	n := drivertest.NAD(name, config)
	n.UID = types.UID(name + "-uid")
	_ = c.nads.Add(n)
	c.Trigger()
}

// after lets time pass, and then waits until all goroutines wait.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (c *statusBench) published() []string {
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

// TestStatusDecidesWhatIsPublished checks that a network is withdrawn while its plugins are
// unhealthy, and that each change is reported once.
func TestStatusDecidesWhatIsPublished(t *testing.T) {
	inStatusBench(t, func(t *testing.T, c *statusBench) {
		c.add("old", oldConf)
		c.add("blue", newConf)
		c.begin(t)
		drivertest.Same(t, "at first", []string{"default-blue", "default-old"}, c.published())
		c.set("blue", notReady)
		after(statusEvery + debounce)
		drivertest.Same(t, "while it is unhealthy", []string{"default-old"}, c.published())
		if _, err := c.View.Usable(attachment.NetworkRef{Namespace: "default", Name: "blue"}); err != nil {
			t.Errorf("Prepare refuses an allocated claim: %v", err)
		}
		after(10 * statusRetry)
		c.set("blue", nil)
		after(statusRetry + debounce)
		drivertest.Same(t, "when it is healthy", []string{"default-blue", "default-old"}, c.published())
		drivertest.Same(t, "reported", []string{"default/blue blue-uid: PluginUnhealthy", "default/blue blue-uid: "}, c.reported())
		drivertest.Same(t, "networks that are asked", map[string]int{"blue": 13}, c.asked)
		drivertest.Same(t, "publications", 3, len(c.calls))
	})
}

// TestNewNetworkIsAskedFirst checks that the plugins of a new network are asked before it
// is published.
func TestNewNetworkIsAskedFirst(t *testing.T) {
	inStatusBench(t, func(t *testing.T, c *statusBench) {
		c.begin(t)
		c.set("failing", notReady)
		c.add("failing", newConf)
		c.add("well", newConf)
		after(3 * debounce)
		drivertest.Same(t, "publications", [][]string{{}, {"default-well"}}, c.calls)
		drivertest.Same(t, "reported", []string{"default/failing failing-uid: PluginUnhealthy"}, c.reported())
	})
}

// TestHangingPluginIsUnhealthy checks that a plugin that hangs is unhealthy, and that others
// do not wait for it.
func TestHangingPluginIsUnhealthy(t *testing.T) {
	inStatusBench(t, func(t *testing.T, c *statusBench) {
		c.hangs["stuck"] = true
		c.add("stuck", newConf)
		c.add("well", newConf)
		c.begin(t)
		drivertest.Same(t, "while it hangs at the start", nil, c.published())
		after(operations.StatusLimit + debounce)
		drivertest.Same(t, "after its time", []string{"default-well"}, c.published())
		c.add("late", newConf)
		after(3 * debounce)
		drivertest.Same(t, "a later one", []string{"default-late", "default-well"}, c.published())
		drivertest.Same(t, "reported", []string{"default/stuck stuck-uid: PluginUnhealthy"}, c.reported())
		why, _ := c.View.Withheld(attachment.NetworkRef{Namespace: "default", Name: "stuck"})
		if !strings.Contains(why.Error(), string(reason.PluginTimeout)) || !strings.Contains(why.Error(), "5s") {
			t.Errorf("withheld by %v", why)
		}
	})
}

// TestManyHangingPlugins checks that plugins are asked a few at a time, and that networks
// whose plugins are not asked in time are published without an answer.
func TestManyHangingPlugins(t *testing.T) {
	inStatusBench(t, func(t *testing.T, c *statusBench) {
		const many = 10 * operations.Workers
		for i := range many {
			name := fmt.Sprintf("n%02d", i)
			c.hangs[name] = true
			c.add(name, newConf)
		}
		c.begin(t)
		after(firstAnswer + debounce)
		drivertest.Same(t, "published without an answer", many-operations.Workers, len(c.published()))
		after(10 * operations.StatusLimit)
		drivertest.Same(t, "published in the end", 0, len(c.published()))
		drivertest.Same(t, "at a time", operations.Workers, c.most)
	})
}

// TestIdenticalConflistsAreAskedOnce checks that equal configurations are asked once.
func TestIdenticalConflistsAreAskedOnce(t *testing.T) {
	inStatusBench(t, func(t *testing.T, c *statusBench) {
		for i := range 5 {
			c.add(fmt.Sprintf("n%d", i), `{"cniVersion":"1.1.0","name":"shared","type":"bridge"}`)
		}
		c.begin(t)
		drivertest.Same(t, "published", 5, len(c.published()))
		drivertest.Same(t, "asked", map[string]int{"shared": 1}, c.asked)
		c.set("shared", notReady)
		after(statusEvery + debounce)
		drivertest.Same(t, "published while it is unhealthy", 0, len(c.published()))
		drivertest.Same(t, "reported", 5, len(c.reported()))
	})
}

// TestStatusFollowsChanges checks that the plugins of a changed configuration are asked
// again while the network stays published, and that nobody asks for one that is gone or
// whose CNI version has no STATUS.
func TestStatusFollowsChanges(t *testing.T) {
	inStatusBench(t, func(t *testing.T, c *statusBench) {
		c.add("blue", newConf)
		c.begin(t)
		c.set("other", notReady)
		c.add("blue", `{"cniVersion":"1.1.0","name":"other","type":"bridge"}`)
		after(3 * debounce)
		drivertest.Same(t, "publications", [][]string{{"default-blue"}, {}}, c.calls)
		c.add("blue", oldConf)
		after(3 * debounce)
		drivertest.Same(t, "as an old one", []string{"default-blue"}, c.published())
		drivertest.Same(t, "reported", []string{"default/blue blue-uid: PluginUnhealthy", "default/blue blue-uid: "}, c.reported())
		before := maps.Clone(c.asked)
		after(10 * statusEvery)
		drivertest.Same(t, "asked", before, c.asked)
	})
}

// TestStatusOutlivesAnotherReason removes and adds the master of an unhealthy network: that
// is reported, and once that it is offered again.
func TestStatusOutlivesAnotherReason(t *testing.T) {
	inStatusBench(t, func(t *testing.T, c *statusBench) {
		c.master(true)
		c.set("blue", notReady)
		c.add("blue", `{"cniVersion":"1.1.0","type":"macvlan","master":"lan0"}`)
		c.begin(t)
		c.master(false)
		c.Trigger()
		after(3 * debounce)
		c.set("blue", nil)
		c.master(true)
		c.Trigger()
		after(3 * debounce)
		drivertest.Same(t, "published", []string{"default-blue"}, c.published())
		drivertest.Same(t, "reported", []string{"default/blue blue-uid: PluginUnhealthy", "default/blue blue-uid: MasterMissing", "default/blue blue-uid: "}, c.reported())
	})
}

// TestLostNetworkIsReported removes the plugin and then the master of a network that was published, and checks that each
// is reported once, and counted. A network that was never published here is not reported.
func TestLostNetworkIsReported(t *testing.T) {
	inStatusBench(t, func(t *testing.T, c *statusBench) {
		var gone bool
		plugin := func(there bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			gone = !there
		}
		c.Missing = func(types []string) []string {
			c.mu.Lock()
			defer c.mu.Unlock()
			return slices.DeleteFunc(slices.Clone(types), func(one string) bool { return !gone || one != "macvlan" })
		}
		c.master(true)
		c.add("blue", `{"cniVersion":"1.0.0","type":"macvlan","master":"lan0"}`)
		c.add("never", `{"cniVersion":"1.0.0","type":"macvlan","master":"lan7"}`)
		c.begin(t)
		drivertest.Same(t, "reported at first", 0, len(c.reported()))
		plugin(false)
		after(recheck + debounce)
		drivertest.Same(t, "lost", 1, c.lost())
		c.master(false)
		c.Trigger()
		after(10 * recheck)
		plugin(true)
		c.master(true)
		c.Trigger()
		after(3 * debounce)
		drivertest.Same(t, "lost in the end", 0, c.lost())
		drivertest.Same(t, "reported", []string{"default/blue blue-uid: PluginMissing", "default/blue blue-uid: MasterMissing", "default/blue blue-uid: "}, c.reported())
		c.master(false)
		c.Trigger()
		after(3 * debounce)
		drivertest.Same(t, "lost again", 1, c.lost())
		c.own(false)
		c.Trigger()
		after(3 * debounce)
		drivertest.Same(t, "lost on a node that is not nadra's", 0, c.lost())
	})
}

// TestEditedNetworkIsNotLost edits the master of a network to one that the node has never had, while it is published and
// while it is lost, and edits it back: only what was published can be lost.
func TestEditedNetworkIsNotLost(t *testing.T) {
	inStatusBench(t, func(t *testing.T, c *statusBench) {
		const here, elsewhere = `{"cniVersion":"1.0.0","type":"macvlan","master":"lan0"}`, `{"cniVersion":"1.0.0","type":"macvlan","master":"bond0"}`
		edit := func(config string) {
			c.add("blue", config)
			after(3 * debounce)
		}
		c.master(true)
		c.add("blue", here)
		c.begin(t)
		edit(elsewhere)
		after(2 * recheck)
		drivertest.Same(t, "reported when it is edited", 0, len(c.reported()))
		drivertest.Same(t, "lost when it is edited", 0, c.lost())
		edit(here)
		c.master(false)
		c.Trigger()
		after(3 * debounce)
		drivertest.Same(t, "lost", 1, c.lost())
		edit(elsewhere)
		drivertest.Same(t, "lost when it is edited again", 0, c.lost())
		edit(here)
		drivertest.Same(t, "lost when it is edited back", 0, c.lost())
		drivertest.Same(t, "reported", []string{"default/blue blue-uid: MasterMissing"}, c.reported())
	})
}

// TestUnhealthyNetworkIsNotLost removes the plugin and the master of a network whose plugin was never healthy, and checks
// that it does not count as lost: the node has never offered it.
func TestUnhealthyNetworkIsNotLost(t *testing.T) {
	inStatusBench(t, func(t *testing.T, c *statusBench) {
		c.master(true)
		c.set("blue", notReady)
		c.add("blue", `{"cniVersion":"1.1.0","type":"macvlan","master":"lan0"}`)
		c.begin(t)
		c.master(false)
		c.Trigger()
		after(3 * debounce)
		drivertest.Same(t, "reported", []string{"default/blue blue-uid: PluginUnhealthy", "default/blue blue-uid: MasterMissing"}, c.reported())
		drivertest.Same(t, "lost", 0, c.lost())
	})
}

// TestUnhealthyNetworkMayBeLost is the same for a network that was offered before its plugin became unhealthy.
func TestUnhealthyNetworkMayBeLost(t *testing.T) {
	inStatusBench(t, func(t *testing.T, c *statusBench) {
		c.master(true)
		c.add("blue", `{"cniVersion":"1.1.0","type":"macvlan","master":"lan0"}`)
		c.begin(t)
		after(time.Minute)
		c.set("blue", notReady)
		after(time.Minute)
		c.master(false)
		c.Trigger()
		after(3 * debounce)
		drivertest.Same(t, "lost", 1, c.lost())
	})
}

// TestHealthChangesComeTogether checks that all networks of a master come in one call.
func TestHealthChangesComeTogether(t *testing.T) {
	var calls []int
	b := newBench(t, func(o *Options) {
		o.HealthChanged = func(_ context.Context, changes []HealthChange) { calls = append(calls, len(changes)) }
	})
	const networks = 50
	b.hostLinks["lan0"] = offer.Link{}
	for i := range networks {
		_ = b.nads.Add(drivertest.NAD(fmt.Sprint("n", i), drivertest.BlueConf))
	}
	b.sync(t)
	delete(b.hostLinks, "lan0")
	b.sync(t)
	b.sync(t)
	b.hostLinks["lan0"] = offer.Link{}
	b.sync(t)
	drivertest.Same(t, "changes of each call", []int{networks, networks}, calls)
}
