//go:build e2e

package upgrade

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// withHooks runs the plan with a hook before and after each wave, once a Job that fails has
// stopped it.
func (f *fixture) withHooks(plan string) {
	f.Helper()
	f.refused(string(reason.HookFailed), "upgrade", "run", "-f", plan, "--yes", "--before-wave", "job:"+f.job("failing", "exit 3"))
	f.served(v1alpha1.OwnerMultus, f.nodes()...)
	log := filepath.Join(f.dir, "hooks")
	f.nadra("upgrade", "run", "-f", plan, "--yes",
		"--before-wave", "exec:echo $NADRA_HOOK $NADRA_WAVE $NADRA_NODES >>"+log,
		"--after-wave", "job:"+f.job("succeeding", `[ "$NADRA_HOOK" = after-wave ] && [ -n "$NADRA_NODES" ]`))
	ran, err := os.ReadFile(log)
	f.Must(err)
	for i, node := range f.nodes() {
		if n := strings.Count(string(ran), node); n != 1 {
			f.Errorf("hooks ran %d times before node %d, %s:\n%s", n, i+1, node, ran)
		}
	}
	if left := f.Kubectl("-n", "default", "get", "jobs", "-o", "name"); strings.Contains(left, "succeeding") {
		f.Errorf("Jobs of hooks are left: %s", left)
	}
}

// job writes the manifest of a Job that runs a script, and returns its path.
func (f *fixture) job(name, script string) string {
	f.Helper()
	return f.file(name+".yaml", fmt.Sprintf(`apiVersion: batch/v1
kind: Job
metadata: {name: %s, namespace: default}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      containers:
        - name: main
          image: localhost/test:1
          imagePullPolicy: Never
          command: [sh, -c, %q]
`, name, script))
}
