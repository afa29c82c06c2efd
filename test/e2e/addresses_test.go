//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/lab"
)

// TestAddresses compares the capacity of networks with small ranges with the number of addresses that the real
// host-local hands out. The ranges are drawn, so that start, end and gateway are often equal, and some ranges
// have no address: such a network is not listed, and does not keep others from being listed.
func TestAddresses(t *testing.T) {
	f := setup(t, "addresses")
	f.bridge("br-addr")
	const networks, more = 30, 10 // more than any of these ranges has
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	draw := rand.New(rand.NewPCG(seed, 0))
	want := map[string]int{}
	for i := range networks {
		prefix, bits := fmt.Sprintf("10.73.%d.", i), 29
		if i%3 == 0 {
			prefix, bits = fmt.Sprintf("fd73::%d:", i), 125
		}
		r := map[string]string{"subnet": fmt.Sprintf("%s0/%d", prefix, bits)}
		for _, key := range []string{"rangeStart", "rangeEnd", "gateway"} {
			if draw.IntN(4) > 0 {
				r[key] = fmt.Sprintf("%s%d", prefix, 1+draw.IntN(4))
			}
		}
		name := fmt.Sprintf("net%d", i)
		config, err := json.Marshal(map[string]any{
			"cniVersion": "1.0.0", "name": name, "type": "bridge", "bridge": "br-addr",
			"ipam": map[string]any{"type": "host-local", "dataDir": "/tmp/addresses", "ranges": [][]any{{r}}},
		})
		f.Must(err)
		want[name] = strings.Count(f.sh(fmt.Sprintf(`for i in $(seq %d); do
			echo '%s' | CNI_COMMAND=ADD CNI_CONTAINERID=c$i CNI_NETNS=/n CNI_IFNAME=eth0 CNI_PATH=/opt/cni/bin /opt/cni/bin/host-local || true
		done; rm -rf /tmp/addresses`, more, config)), `"address"`)
		f.nad(name, string(config))
		t.Logf("%v: %d addresses", r, want[name])
	}
	f.Eventually(time.Minute, func(ctx context.Context) error {
		devices, err := f.Devices(ctx)
		if err != nil {
			return err
		}
		for name, count := range want {
			got := 0
			for _, d := range devices[lab.NetworkID(f.NS+"/"+name)] {
				capacity := d.Capacity["addresses"]
				got += int(capacity.Value.Value())
			}
			if got != count {
				return fmt.Errorf("%s is listed with %d addresses, want %d", name, got, count)
			}
		}
		return nil
	})
}
