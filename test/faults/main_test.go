//go:build e2e

// Package faults is the fault suite: pods come and go on a real cluster while everything
// around them fails, by a schedule that is drawn from a seed. A checker that is independent
// of nadra's code watches all the time: no container may ever run without one of its pod's
// interfaces. In the end all remaining pods must work, and deleted pods must have left
// nothing. Further tests edit running pods while everything fails, and let the driver die at
// each point at which it takes over pods of Multus. The package has only tests.
//
//	FAULT_PODS          how many pods, 150 by default
//	FAULT_SEED          which schedule; drawn and printed by default
//	FAULT_EDITS         how many edits of running pods, 1,000 by default
//	FAULT_HANDLE_LIVES  lives of the test of file descriptors, 100 by default
//
// # What fails
//
// The seed decides which fault happens when (schedule_test.go), and how each pod lives
// (life_test.go):
//
//   - the driver is killed, also at each of its fail points (internal/failpoint), ends by SIGTERM,
//     is rolled out, or is replaced by one that cannot begin;
//   - the API server is away for seconds, or so slow that the driver starts with late answers;
//   - the runtime, the kubelet or a sandbox is killed or restarted;
//   - plugins are killed, away, slow, hanging or refusing, in ADD and in DEL;
//   - the disk is full, or read-only;
//   - the node loses power, and boots with what was on the disk, as the image of the file system
//     had it.
//
// Pods are deleted with and without grace, created again under their name at once, keep their
// claims or leave them to the next pod of that name, have init and ephemeral containers, and are
// restarted or not. A container looks for its interfaces before anything else, and reports what it
// lacks.
//
// # What others lose
//
// What Kubernetes, the runtimes and host-local lose themselves is recognised by its signs, mended,
// and counted in the line "upstream:". For example, CRI-O 1.36 takes a container for running that
// ends while CRI-O starts; the suite then restarts CRI-O. With CRI-O there is no case in which
// Unprepare runs no DEL, because CRI-O reports the end of sandboxes that are older than itself.
package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

var (
	// theLab is the cluster of all tests.
	theLab *lab.Lab
	// interrupted ends when a person stops the run.
	interrupted context.Context
	// lastLines has the figures of TestFaults, which are printed last.
	lastLines string
	// auditDir has the API server's policy and log of requests for pods.
	auditDir string
)

func TestMain(m *testing.M) {
	lab.Main("faults", func(ctx context.Context, dir string) int { return run(ctx, dir, m) })
}

func run(ctx context.Context, dir string, m *testing.M) int {
	interrupted = ctx
	var err error
	if auditDir, err = os.MkdirTemp("", "nadra-audit-"); err == nil {
		err = os.WriteFile(filepath.Join(auditDir, "policy.yaml"), []byte(auditPolicy), 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(auditDir)
	theLab, err = lab.StartImage(ctx, filepath.Join(lab.Root(), "bin", "faults", "nadra-node.tar"), options(dir), os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting the cluster:", err)
		return 1
	}
	stopKeeping := keepDriverLogs(theLab.Cluster.LogDir())
	code := m.Run()
	stopKeeping()
	if err := lab.PrintRan(ctx, theLab.Cluster); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if err := races(theLab.Cluster.LogDir()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if code != 0 {
		saveLogs()
	}
	if err := theLab.Cluster.Stop(context.WithoutCancel(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the cluster:", err)
		code = 1
	}
	if lastLines != "" {
		fmt.Println(lastLines)
	}
	return code
}

// auditLog returns the API server's log of who creates and deletes pods, and of who reserves claims for them.
func auditLog() string { return filepath.Join(auditDir, "audit.log") }

// auditPolicy makes the API server log who creates and deletes pods, and who writes for which pods a claim is reserved.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Request
    verbs: [create, delete, deletecollection]
    resources: [{resources: [pods]}]
  - level: Request
    verbs: [update, patch]
    resources: [{group: resource.k8s.io, resources: [resourceclaims/status]}]
`

func options(dir string) cluster.Options {
	return cluster.Options{
		Dir:           dir,
		APIServerArgs: []string{"--audit-policy-file=" + filepath.Join(auditDir, "policy.yaml"), "--audit-log-path=" + auditLog()},
		NRITimeout:    2 * time.Second, // the runtime's own default, and the hard case
		KubeletConfig: map[string]any{
			// The driver dies dozens of times in a few minutes. With the usual
			// back-off, up to five minutes, it would soon be dead most of the time.
			"crashLoopBackOff": map[string]any{"maxContainerRestartPeriod": "1s"},
		},
		OnBoot: prepareNode(dir),
	}
}
