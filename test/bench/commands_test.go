package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/bench/stats"
	"github.com/nadra-dev/nadra/test/lab"
)

// commandFigures has the figures of one command line over many manifests.
type commandFigures struct {
	Command string
	// Seconds are from start to exit, MiB the most memory that was resident.
	Seconds, MiB stats.Sample
}

// The goals for one command line.
const (
	commandSeconds = 3
	commandMiB     = 300
)

// Goal reports whether the median run meets both goals. They are for the program's own
// work, without the file system's creation of 10,000 files.
func (c commandFigures) Goal() string {
	if strings.Contains(c.Command, "--output-dir") {
		return "–"
	}
	if c.Seconds.Median() < commandSeconds && c.MiB.Median() < commandMiB {
		return "met"
	}
	return "missed"
}

const (
	commandWorkloads = 10_000
	commandNetworks  = 1_000
	commandRuns      = 5
)

// BenchmarkCommands runs the program itself over manifests in files, one for
// each workload, in turn.
func BenchmarkCommands(b *testing.B) {
	figures.begin(b, "commands")
	noLab(b)
	dir := b.TempDir()
	must(b, writeManifests(dir))
	program := filepath.Join(lab.Root(), "bin/kubectl-nadra")
	commands := [][]string{
		{"scan", "-o", "table"},
		{"scan", "-o", "json"},
		{"scan", "-o", "html"},
		{"convert"},
		{"convert", "--output-dir", filepath.Join(b.TempDir(), "out")},
	}
	all := make([]commandFigures, len(commands))
	for range commandRuns {
		for i, args := range commands {
			all[i].Command = strings.Join(args[:min(2, len(args))], " ")
			if args[0] == "scan" {
				all[i].Command = strings.Join(args, " ")
			}
			seconds, mib, err := runCommand(program, append(args, "-R", "-f", dir, "--quiet"))
			must(b, err)
			all[i].Seconds, all[i].MiB = append(all[i].Seconds, seconds), append(all[i].MiB, mib)
		}
	}
	for _, c := range all {
		name := strings.ReplaceAll(c.Command, " ", "-")
		b.ReportMetric(c.Seconds.Median(), "s/"+name)
		b.ReportMetric(c.MiB.Median(), "MiB/"+name)
	}
	figures.Commands = all
}

func runCommand(program string, args []string) (seconds, mib float64, err error) {
	command := exec.Command(program, args...)
	var errs bytes.Buffer
	command.Stderr = &errs
	start := time.Now()
	if err := command.Run(); err != nil {
		return 0, 0, fmt.Errorf("running %v: %w: %s", args, err, errs.String())
	}
	usage := command.ProcessState.SysUsage().(*syscall.Rusage)
	return time.Since(start).Seconds(), float64(usage.Maxrss) / 1024, nil
}

// writeManifests writes 1,000 networks in one file and 10,000 Deployments, nine
// of ten with two networks, in 100 folders.
func writeManifests(dir string) error {
	var networks bytes.Buffer
	for i := range commandNetworks {
		fmt.Fprintf(&networks, "---\napiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata:\n  name: net%d\n  namespace: ns%d\n"+
			"spec:\n  config: '{\"cniVersion\": \"1.0.0\", \"type\": \"macvlan\", \"master\": \"eth1\", \"ipam\": {\"type\": \"host-local\", \"subnet\": \"10.0.0.0/16\"}}'\n", i, i%100)
	}
	if err := os.WriteFile(filepath.Join(dir, "networks.yaml"), networks.Bytes(), 0o644); err != nil {
		return err
	}
	for i := range commandWorkloads {
		folder := filepath.Join(dir, fmt.Sprintf("ns%d", i%100))
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		annotations := ""
		if i%10 != 0 {
			annotations = fmt.Sprintf("\n      annotations:\n        k8s.v1.cni.cncf.io/networks: '[{\"name\": \"net%d\", \"ips\": [\"10.0.%d.%d/16\"]}, {\"name\": \"net%[1]d\"}]'",
				i%commandNetworks, i/250, i%250)
		}
		text := fmt.Appendf(nil, deployment, i, i%100, annotations)
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("web%d.yaml", i)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata:
  name: web%[1]d
  namespace: ns%[2]d
spec:
  replicas: 2
  selector:
    matchLabels: {app: web%[1]d}
  template:
    metadata:
      labels:
        app: web%[1]d%[3]s
    spec:
      initContainers:
      - name: wait
        image: registry.example.com/wait:1.0
      containers:
      - name: web
        image: registry.example.com/web:1.0
        env:
        - name: POD
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        resources:
          limits:
            cpu: "1"
            memory: 1Gi
        volumeMounts:
        - name: data
          mountPath: /data
      volumes:
      - name: data
        emptyDir: {}
`
