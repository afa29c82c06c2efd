package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/nadra-dev/nadra/internal/desk/doctor"
	"github.com/nadra-dev/nadra/internal/desk/report"
)

const doctorHelp = `Check how nadra is, and whether the cluster and its nodes are ready for it. First
come nadra's driver on its nodes, controller and webhook, the devices that nodes
offer, and the pods that wait. Then versions, feature gates, container runtimes,
the kubelets' NUMA policies, schedulers, queues, autoscalers, Multus and its
settings, static pods, and the state of IPAM plugins. Beside Multus on one node,
it also names the programs that do not see the networks of nadra's pods.

It only reads. Facts that the user may not read are unknown, with the missing
right. Facts that only a node has are unknown without --probe: NRI and its request
timeout, CDI, CNI plugins, interfaces and configurations. --probe creates a pod on
each node, which can read the host's files and not write them, and always deletes
it again.`

const doctorExamples = `  # the cluster's objects only
  kubectl nadra doctor
  # with a pod on each node; before nadra is installed, name its namespace and image
  kubectl nadra doctor --probe
  kubectl nadra doctor --probe --probe-namespace kube-system --image registry.example.com/nadra-node:v1
  # before nadra is installed beside Multus on one node
  kubectl nadra doctor --beside-multus
  # save the facts for a place that cannot reach the cluster
  kubectl nadra doctor --probe --output-file caps.yaml
  kubectl nadra doctor --from caps.yaml
  kubectl nadra scan -R -f deploy/ --caps caps.yaml`

type doctorOptions struct {
	*app
	nodes               []string
	pods                nodeFlags
	quiet               bool
	binDirs, save, from string
	remedy              string // without a cluster
	format              formatFlag
	beside              bool
	failOn              failOn
}

func (a *app) doctor() *cobra.Command {
	o := &doctorOptions{app: a, remedy: giveKubeconfig + ", or a saved file with --from"}
	command := leaf("doctor", "Check whether the cluster and its nodes are ready for nadra", doctorHelp, doctorExamples, o.run)
	flags := command.Flags()
	flags.StringSliceVar(&o.nodes, "node", nil, "check only these nodes")
	o.pods.add(flags, false)
	flags.StringVar(&o.binDirs, "cni-bin-dirs", "", "comma-separated directories of CNI plugins in the hosts (default the running driver's, or /opt/cni/bin)")
	flags.BoolVar(&o.beside, "beside-multus", false, "check for nadra beside Multus on one node, before nadra is installed so; otherwise the flags of the installed nadra say it")
	addOutputFile(flags, &o.save, "", "the facts, for --from and for scan --caps")
	flags.StringVar(&o.from, "from", "", "file of --output-file to check instead of the cluster")
	o.format.addFlag(command, report.Doctor.Names())
	flags.BoolVarP(&o.quiet, "quiet", "q", false, "print no progress")
	o.failOn.addFlag(flags)
	return command
}

func (o *doctorOptions) check() error {
	switch {
	case o.from != "" && (o.pods.probe || o.save != ""):
		return errors.New("--from checks a file: leave out --probe and --output-file")
	}
	return o.pods.check()
}

func (o *doctorOptions) run(ctx context.Context) error {
	if err := o.check(); err != nil {
		return err
	}
	caps, err := o.capabilities(ctx)
	if err != nil {
		return err
	}
	if o.save != "" {
		if err := saveCapabilities(o.save, &caps); err != nil {
			return err
		}
	}
	r := doctor.NewReport(caps)
	if err := report.Doctor.Write(o.Out, o.format.value, r); err != nil {
		return err
	}
	return o.failOn.verdict(r.Summary.Findings)
}

// capabilities reads the facts from the file or the cluster.
func (o *doctorOptions) capabilities(ctx context.Context) (doctor.Capabilities, error) {
	if o.from != "" {
		c, err := readDocument("capabilities", o.from, doctor.ParseCapabilities)
		if err != nil {
			return doctor.Capabilities{}, err
		}
		c.BesideMultus = c.BesideMultus || o.beside
		return c.Of(o.nodes), nil
	}
	cluster, err := o.cluster.connect(cmp.Or(o.remedy, giveKubeconfig))
	if err != nil {
		return doctor.Capabilities{}, err
	}
	cluster.Nodes, cluster.BesideMultus = o.nodes, o.beside
	progress := newProgress(o.ErrOut, o.quiet)
	defer progress.stop()
	cluster.Progress = func(what string) { progress.say("Reading %s", what) }
	caps, err := cluster.Read(ctx)
	if err != nil {
		return caps, err
	}
	if !o.pods.probe {
		caps.Gaps = append(caps.Gaps, doctor.Gap{Part: doctor.PartProbe, Reason: "only a pod on the node can read it", Remedy: "--probe"})
		return caps, nil
	}
	progress.say("Probing %d nodes", len(caps.Nodes))
	err = doctor.Probe{Pods: o.pods.podsOf(cluster.Kube), BinDirs: o.binDirs}.Run(ctx, &caps)
	return caps, err
}

// saveCapabilities writes the facts to a file.
func saveCapabilities(path string, c *doctor.Capabilities) error {
	text, err := c.YAML()
	if err != nil {
		return err
	}
	if err := writeFile(path, text, 0o644); err != nil {
		return fmt.Errorf("saving the capabilities: %w", err)
	}
	return nil
}
