//go:build e2e

package driver

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	nri "github.com/containerd/nri/pkg/api"
	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"

	"github.com/nadra-dev/nadra/test/bench/stats"
)

// nodePlugins is where a node has its plugins, Multus' among them.
const nodePlugins = "/opt/cni/bin"

// primary is the network that each sandbox has before the others: a plugin
// that does nothing, so that what is compared is not the cluster's network.
const primary = `{"cniVersion":"1.0.0","name":"primary","plugins":[{"type":"nothing"}]}`

// means is how one of the four ways goes.
type means interface {
	// pod makes the sandbox's pod known as far as that is done before the
	// runtime is asked for a sandbox, and forget is its end.
	pod(ctx context.Context, pod *nri.PodSandbox, round int) error
	add(ctx context.Context, pod *nri.PodSandbox) error
	del(ctx context.Context, pod *nri.PodSandbox) error
	forget(ctx context.Context, pod *nri.PodSandbox) error
}

// way is one of them with what was measured of it.
type way struct {
	name string
	means
	add, del           stats.Sample
	addAdded, delAdded stats.Sample // over libcni in the same round
}

// fourWays are all of them, libcni first.
type fourWays struct {
	ways  []way
	nadra *nadraSide
	pods  *besidePods
	// networks is how long libcni took without the sandbox's first network.
	networks stats.Sample
}

func (c hookCase) newFourWays(ctx context.Context, podNamespace, dir string) (*fourWays, error) {
	bare, err := newLibcniSide(c, filepath.Join(dir, "libcni"), filepath.Join(dir, "libcni-addresses"))
	if err != nil {
		return nil, err
	}
	first, err := libcni.NetworkConfFromBytes([]byte(primary))
	if err != nil {
		return nil, err
	}
	all := &fourWays{}
	if all.nadra, err = newNadraSide(ctx, c, filepath.Join(dir, "state"), filepath.Join(dir, "nadra-addresses")); err != nil {
		return nil, err
	}
	if all.pods, err = newBesidePods(ctx, c, podNamespace, filepath.Join(dir, "multus-addresses")); err != nil {
		return nil, err
	}
	onlyFirst := &libcniSide{cni: bare.cni}
	all.ways = []way{
		{name: "libcni", means: bareWay{bare, first, &all.networks}},
		{name: "nadra", means: hookWay{all.nadra, bareWay{onlyFirst, first, new(stats.Sample)}}},
	}
	for _, m := range []struct{ name, version, conf string }{
		{"thin", "1.0.0", `{"type":"multus","kubeconfig":%[1]q,"cniDir":%[2]q,"binDir":"` + nodePlugins + `","logLevel":"error","delegates":[%[3]s]}`},
		// The daemon has its own configuration for the rest, and its version of it.
		{"thick", "0.3.1", `{"type":"multus-shim","daemonSocketDir":"/run/multus","delegates":[%[3]s]}`},
	} {
		conf := fmt.Sprintf(m.conf, os.Getenv("KUBECONFIG"), filepath.Join(dir, "multus"), primary)
		list, err := libcni.NetworkConfFromBytes(fmt.Appendf(nil, `{"cniVersion":%q,"name":"multus-cni-network","plugins":[%s]}`, m.version, conf))
		if err != nil {
			return nil, err
		}
		run := &invoke.DefaultExec{RawExec: &invoke.RawExec{Stderr: io.Discard}}
		cni := libcni.NewCNIConfigWithCacheDir([]string{c.binDir}, filepath.Join(dir, m.name), run)
		all.ways = append(all.ways, way{name: m.name, means: multusWay{bareWay{&libcniSide{cni: cni}, list, new(stats.Sample)}, m.name, all.pods}})
	}
	return all, nil
}

func (f *fourWays) close(ctx context.Context) error {
	f.nadra.driver.events.Shutdown()
	return f.pods.delete(ctx)
}

// bareWay calls plugins, the sandbox's first network before the others.
type bareWay struct {
	*libcniSide
	first *libcni.NetworkConfigList
	// networks is how long the others took, each time.
	networks *stats.Sample
}

func (w bareWay) pod(context.Context, *nri.PodSandbox, int) error { return nil }
func (w bareWay) forget(context.Context, *nri.PodSandbox) error   { return nil }

func (w bareWay) add(ctx context.Context, pod *nri.PodSandbox) error {
	if _, err := w.cni.AddNetworkList(ctx, w.first, w.primaryConf(pod)); err != nil {
		return err
	}
	took, err := timed(func() error { return w.addAll(ctx, pod) })
	w.networks.Add(took)
	return err
}

func (w bareWay) del(ctx context.Context, pod *nri.PodSandbox) error {
	if err := w.delAll(ctx, pod); err != nil {
		return err
	}
	return w.cni.DelNetworkList(ctx, w.first, w.primaryConf(pod))
}

func (w bareWay) primaryConf(pod *nri.PodSandbox) *libcni.RuntimeConf {
	conf := confOf(pod, 0)
	conf.IfName = "eth0"
	return conf
}

// hookWay is what the runtime does with nadra beside it: the first network, then
// the hook. Prepare was long before.
type hookWay struct {
	side    *nadraSide
	runtime bareWay
}

func (w hookWay) pod(_ context.Context, pod *nri.PodSandbox, _ int) error {
	return w.side.driver.store.Put(preparedFor(pod, w.side.plan))
}

func (w hookWay) add(ctx context.Context, pod *nri.PodSandbox) error {
	if err := w.runtime.add(ctx, pod); err != nil {
		return err
	}
	return w.side.hooks.RunPodSandbox(ctx, pod)
}

func (w hookWay) del(ctx context.Context, pod *nri.PodSandbox) error {
	if err := w.side.hooks.StopPodSandbox(ctx, pod); err != nil {
		return err
	}
	return w.runtime.del(ctx, pod)
}

func (w hookWay) forget(ctx context.Context, pod *nri.PodSandbox) error {
	return w.side.driver.preparer.unprepare(ctx, claimOf(pod))
}

// multusWay is what the runtime does with Multus as its only network.
type multusWay struct {
	bareWay
	name string
	pods *besidePods
}

func (w multusWay) pod(_ context.Context, pod *nri.PodSandbox, round int) error {
	made := w.pods.made[multusPod(w.name, round)]
	pod.Namespace, pod.Name, pod.Uid = made.Namespace, made.Name, string(made.UID)
	return nil
}
