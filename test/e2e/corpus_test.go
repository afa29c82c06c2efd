//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"github.com/vishvananda/netlink"
	resourceapi "k8s.io/api/resource/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/test/lab"
)

// runnable has the plugins that are installed and that this kernel supports.
var runnable = []string{"macvlan", "bridge", "ptp", "tap", "host-device", "tuning", "sbr"}

// chain has the parts of a configuration that the test needs. The test reads it without
// nadra's parser, which it tests.
type chain struct {
	Plugins []link
	link
}

type link struct {
	Type, Master, Device, Bridge string
	IPAM                         struct {
		Type      string
		Addresses []any
		Routes    []struct{ GW string }
	}
}

func (c chain) all() []link {
	if len(c.Plugins) > 0 {
		return c.Plugins
	}
	return []link{c.link}
}

// unrunnable returns why a NAD cannot be attached here, or "".
func (c chain) unrunnable(nad *nadv1.NetworkAttachmentDefinition) string {
	if nad.Annotations["k8s.v1.cni.cncf.io/resourceName"] != "" {
		return "draws from a resource pool"
	}
	for _, p := range c.all() {
		if !slices.Contains(runnable, p.Type) {
			return "plugin " + p.Type
		}
		if !slices.Contains([]string{"", "host-local", "static"}, p.IPAM.Type) {
			return "IPAM " + p.IPAM.Type
		}
	}
	return ""
}

// config returns the request of a pod for the NAD. Static IPAM without addresses needs one
// in the request, which must reach the gateways of the NAD's routes.
func (c chain) config(i int) map[string]any {
	ipam := c.all()[0].IPAM
	if ipam.Type != "static" || len(ipam.Addresses) > 0 {
		return nil
	}
	address := netip.AddrFrom4([4]byte{10, 200, byte(i), 77})
	for _, r := range ipam.Routes {
		if gw, err := netip.ParseAddr(r.GW); err == nil && gw.Is4() {
			b := gw.As4()
			b[3] = b[3]%100 + 100 // another address of its /24
			address = netip.AddrFrom4(b)
		}
	}
	return map[string]any{"ips": []string{address.String() + "/24"}}
}

// TestCorpus attaches at least 25 unmodified NADs of other projects, compares the result
// with the plugins' reports, and detaches them, which must leave nothing.
func TestCorpus(t *testing.T) {
	dir := os.Getenv("NADRA_CORPUS")
	if dir == "" {
		t.Skip("NADRA_CORPUS is not set: no real manifests to read")
	}
	f := setup(t, "corpus")
	nads, err := readNADs(dir)
	f.Must(err)

	var wg sync.WaitGroup
	slots := make(chan struct{}, 3)
	attached, skipped := 0, map[string]int{}
	inUse := &keyLocks{locks: map[string]*sync.Mutex{}}
	for i, nad := range nads {
		var c chain
		if json.Unmarshal([]byte(nad.Spec.Config), &c) != nil {
			skipped["not JSON or empty"]++
			continue
		}
		if why := c.unrunnable(nad); why != "" {
			skipped[why]++
			continue
		}
		attached++
		f.makeLinks(c, i)
		name := fmt.Sprintf("nad-%03d", i)
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			// Bridges and masters with one name are the same interface of the node.
			defer inUse.lock(c.all()[0].Bridge + c.all()[0].Master + c.all()[0].Device)()
			if err := f.attachAndDetach(name, nad, c.config(i)); err != nil {
				t.Errorf("%s/%s: %v\n%s", nad.Namespace, nad.Name, err, nad.Spec.Config)
			}
		})
	}
	wg.Wait()
	t.Logf("NADs: %d in all, %d attached, not runnable here: %v", len(nads), attached, skipped)
	if attached < 25 {
		t.Errorf("only %d NADs were attached, want at least 25", attached)
	}
}

// makeLinks creates the interfaces that the NAD expects on the node, and arranges for the
// removal of those that its plugins leave by design.
func (f *fixture) makeLinks(c chain, serial int) {
	f.Helper()
	for _, p := range c.all() {
		for _, name := range []string{p.Master, p.Device} {
			if name != "" && f.sh("ip link show "+name+" >/dev/null 2>&1 || echo absent") != "" {
				kind := "veth peer name peer" + fmt.Sprint(serial)
				if strings.HasPrefix(name, "br") { // some NAD may use it as its bridge
					kind = "bridge"
				}
				f.sh("ip link add " + name + " type " + kind + " && ip link set " + name + " up")
				f.bridge(name)
			}
		}
		if p.Bridge != "" {
			f.bridge(p.Bridge)
		}
	}
}

// attachAndDetach runs a pod with the NAD in a namespace of its own, because the corpus may
// have several NADs with one name.
func (f *fixture) attachAndDetach(ns string, nad *nadv1.NetworkAttachmentDefinition, config map[string]any) error {
	if err := f.CreateNamespace(f.Ctx, ns); err != nil {
		return err
	}
	if err := f.CreateNAD(f.Ctx, ns, nad.Name, nad.Spec.Config); err != nil {
		return err
	}
	if _, err := f.Create(f.Ctx, ns, "pod", lab.Want{Network: nad.Name, Config: config}); err != nil {
		return err
	}
	pod, err := f.Ready(f.Ctx, ns, "pod", 2*time.Minute)
	if err != nil {
		return err
	}
	claim, err := f.ClaimWhen(f.Ctx, pod, func(c *resourceapi.ResourceClaim) error {
		if len(c.Status.Devices) != 1 || c.Status.Devices[0].Data == nil {
			return errors.New("the claim has no CNI result yet")
		}
		return nil
	})
	if err != nil {
		return err
	}
	var result types100.Result
	if err := json.Unmarshal(claim.Status.Devices[0].Data.Raw, &result); err != nil {
		return err
	}
	if err := f.compare(&result); err != nil {
		return fmt.Errorf("the pod's namespace differs from what the plugins reported: %w", err)
	}
	if err := f.DeletePod(f.Ctx, ns, "pod"); err != nil {
		return err
	}
	_, err = f.Cluster.Kubectl(f.Ctx, "delete", "namespace", ns, "--wait=false")
	return err
}

// compare checks that the pod's network namespace has everything that the result lists.
func (f *fixture) compare(result *types100.Result) error {
	var path string
	for _, i := range result.Interfaces {
		if i.Sandbox != "" {
			path = i.Sandbox
		}
	}
	if path == "" {
		return errors.New("no interface of the result is in the pod")
	}
	ns, err := f.node.PodNetNS(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns)
	if err != nil {
		return err
	}
	defer h.Close()
	var errs []error
	for index, i := range result.Interfaces {
		if i.Sandbox != "" {
			errs = append(errs, compareLink(h, i, result, index))
		}
	}
	for _, r := range result.Routes {
		errs = append(errs, compareRoute(h, r.Dst.String(), r.GW.String()))
	}
	return errors.Join(errs...)
}

func compareLink(h *netlink.Handle, i *types100.Interface, result *types100.Result, index int) error {
	l, err := h.LinkByName(i.Name)
	if err != nil {
		return fmt.Errorf("interface %s: %w", i.Name, err)
	}
	if i.Mac != "" && !strings.EqualFold(l.Attrs().HardwareAddr.String(), i.Mac) {
		return fmt.Errorf("interface %s has MAC %s, reported %s", i.Name, l.Attrs().HardwareAddr, i.Mac)
	}
	addrs, err := h.AddrList(l, netlink.FAMILY_ALL)
	if err != nil {
		return err
	}
	for _, ip := range result.IPs {
		onThis := ip.Interface == nil || *ip.Interface == index
		there := slices.ContainsFunc(addrs, func(a netlink.Addr) bool { return a.IPNet.String() == ip.Address.String() })
		if onThis && !there {
			return fmt.Errorf("interface %s lacks the address %s", i.Name, ip.Address.String())
		}
	}
	return nil
}

func compareRoute(h *netlink.Handle, dst, gw string) error {
	routes, err := h.RouteListFiltered(netlink.FAMILY_ALL, &netlink.Route{Table: 0}, netlink.RT_FILTER_TABLE)
	if err != nil {
		return err
	}
	for _, r := range routes {
		if r.Dst != nil && r.Dst.String() == dst && (gw == "<nil>" || r.Gw.String() == gw) {
			return nil
		}
	}
	return fmt.Errorf("no route to %s by %s", dst, gw)
}

// readNADs returns all NetworkAttachmentDefinitions below dir.
func readNADs(dir string) ([]*nadv1.NetworkAttachmentDefinition, error) {
	var out []*nadv1.NetworkAttachmentDefinition
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		docs := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
		for {
			doc, err := docs.Read()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("reading %s: %w", path, err)
			}
			var nad nadv1.NetworkAttachmentDefinition
			if yaml.Unmarshal(doc, &nad) == nil && nad.Kind == "NetworkAttachmentDefinition" {
				out = append(out, &nad)
			}
		}
	})
	return out, err
}

// keyLocks has a lock for each key.
type keyLocks struct {
	mu    sync.Mutex
	locks map[string]*sync.Mutex
}

func (k *keyLocks) lock(key string) (unlock func()) {
	k.mu.Lock()
	l := k.locks[key]
	if l == nil {
		l = &sync.Mutex{}
		k.locks[key] = l
	}
	k.mu.Unlock()
	l.Lock()
	return l.Unlock
}
