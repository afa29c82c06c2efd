package driver

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/drivertest"
	"github.com/nadra-dev/nadra/test/golden"
)

// TestOwnerIsRemembered checks that a driver that cannot read its Node goes by what the driver before it
// has read, if there was one and it ran with the same label. testdata/owner.txt has what these drivers write.
func TestOwnerIsRemembered(t *testing.T) {
	wrote := map[string]bool{}
	for _, tt := range []struct {
		name            string
		before          map[string]string
		now             Ownership
		attaches, known bool
	}{
		{"nadra's", map[string]string{"nadra.dev/owner": "nadra"}, byLabel, true, true},
		{"Multus'", nil, byLabel, false, true},
		{"given back", map[string]string{"nadra.dev/owner": "returning"}, byLabel, true, true},
		{"another label", map[string]string{"nadra.dev/owner": "nadra"}, Ownership{Label: "other", Value: "nadra"}, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			first := newOwner(nodeClient(t, nodeMeta("node-1", tt.before)), "node-1", dir, byLabel, false)
			run(t, first)
			text, err := os.ReadFile(filepath.Join(dir, "owner"))
			if err != nil {
				t.Fatal(err)
			}
			wrote[strconv.Quote(string(text))+"\n"] = true
			next := newOwner(nodeClient(t), "node-1", dir, tt.now, false)
			next.wait = 0
			run(t, next)
			attaches, known := next.attaches()
			drivertest.Same(t, "attaches, and known", [2]bool{tt.attaches, tt.known}, [2]bool{attaches, known})
		})
	}
	golden.Check(t, filepath.Join("testdata", "owner.txt"), strings.Join(slices.Sorted(maps.Keys(wrote)), ""))
}

// TestPodsBeforeTheNodeWasRead checks what happens to new sandboxes while nobody knows whose the node is.
func TestPodsBeforeTheNodeWasRead(t *testing.T) {
	unknown := func(c *Config) { c.Ownership = byLabel; c.Ownership.Unclaimed = AttachUnclaimed }
	inWorldWith(t, setup{cfg: unknown}, blueConf, func(t *testing.T, w *world) {
		w.owner.seen.Store(false)
		drivertest.WantReason(t, w.RunPodSandbox(t.Context(), asking("a", "blue")), reason.OwnerUnknown, "pod default/a", "node-1")
		if err := w.RunPodSandbox(t.Context(), asking("a", "")); err != nil {
			t.Errorf("a pod without networks: %v", err)
		}
		if err := w.RunPodSandbox(t.Context(), asking("kept", "blue")); err != nil {
			t.Errorf("an exempt pod: %v", err)
		}
		static := with(asking("solo", "blue"), func(p *nri.PodSandbox) { p.Annotations[configSource] = "file" })
		w.knows(t, "solo-uid", static.GetAnnotations())
		if err := w.RunPodSandbox(t.Context(), static); err != nil {
			t.Errorf("a static pod: %v", err)
		}
		if _, _, err := w.CreateContainer(t.Context(), static, &nri.Container{}); err != nil {
			t.Errorf("a container of a static pod: %v", err)
		}
		drivertest.Same(t, "pods without records", 1, w.Driver.metricsState().WithoutRecords)
		w.owner.labelled.Store(true)
		w.owner.seen.Store(true)
		after(2 * freshFailure)
		w.unclaimed.reconsider()
		synctest.Wait()
		drivertest.Same(t, "phases of the static pod", 1, len(w.phasesOfSolo()))
	})
}
