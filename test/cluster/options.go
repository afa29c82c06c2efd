package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Options describes a cluster to start. All fields have defaults.
type Options struct {
	// Dir is the run folder: the disks of the machines, their logs and keys.
	// It is made, and removed by Stop. The default is one in the cache.
	Dir string
	// Nodes is the number of nodes that run pods; 1 by default, and 0 if there are guests.
	Nodes int
	// Guests is the number of nodes that the caller runs, after the others.
	Guests int
	// EmulatedVersion is a minor version such as 1.34 whose APIs and feature gates the
	// control plane has; by default that of NADRA_EMULATE, or its own.
	EmulatedVersion string
	// Layout says where nodes have their directories; by default NADRA_LAYOUT's.
	Layout string
	// Families are "ipv6", "dual" or empty for IPv4; by default NADRA_FAMILIES'.
	Families string
	// FeatureGates are those of all components, besides those of NADRA_FEATURE_GATES.
	FeatureGates map[string]bool
	// NRIValidator turns on NRI's default validator. It only concerns pods with annotations for it.
	NRIValidator bool
	// NRITimeout is how long the container runtime waits for an NRI plugin; 5 s by default.
	NRITimeout time.Duration
	// ImageArchives are imported on every node.
	ImageArchives []string
	// APIServerArgs are added to the arguments of kube-apiserver.
	APIServerArgs []string
	// ControllerManagerArgs are added to the arguments of
	// kube-controller-manager.
	ControllerManagerArgs []string
	// SchedulerArgs are added to the arguments of kube-scheduler.
	SchedulerArgs []string
	// GOGC is the garbage collector's setting of all components. Benchmarks set Go's default, 100,
	// as users have it. Without it, components save CPU time: see goSettings.
	GOGC int
	// KubeletConfig has top-level fields of the KubeletConfiguration of every
	// node.
	KubeletConfig map[string]any
	// OnBoot is called at each boot of a node, before its container runtime and the kubelet
	// are started.
	OnBoot func(context.Context, *Node) error `json:"-"`
	// Out gets messages about the progress; none by default.
	Out io.Writer `json:"-"`
}

// DefaultDir returns the default run folder: that of the source tree, so that the cluster of one checkout is not taken for
// another's.
func DefaultDir() (string, error) {
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	root, err := sourceRoot()
	if err != nil {
		return "", fmt.Errorf("%w: name its run folder", err)
	}
	sum := sha256.Sum256([]byte(root))
	return filepath.Join(cache, runFolder, hex.EncodeToString(sum[:4])), nil
}

func (o Options) withDefaults() (Options, error) {
	if o.Dir == "" {
		dir, err := DefaultDir()
		if err != nil {
			return o, err
		}
		o.Dir = dir
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return o, err
	}
	o.Dir = dir
	for _, private := range []string{"/run/", "/var/run/", "/var/tmp/"} {
		if strings.HasPrefix(dir, private) {
			return o, fmt.Errorf("the run folder %s is below %s, which machines do not share", dir, private)
		}
	}
	if o.Nodes == 0 && o.Guests == 0 {
		o.Nodes = 1
	}
	if o.Nodes < 0 || o.Guests < 0 || o.Nodes+o.Guests > maxNodes {
		return o, fmt.Errorf("%d nodes are asked for; 1 to %d are possible", o.Nodes+o.Guests, maxNodes)
	}
	if o.NRITimeout == 0 {
		o.NRITimeout = 5 * time.Second
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	if err := o.readEnvironment(); err != nil {
		return o, err
	}
	if err := errors.Join(checkLayout(o), checkFamilies(o)); err != nil {
		return o, err
	}
	o.ImageArchives = slices.Clone(o.ImageArchives)
	for i, archive := range o.ImageArchives {
		if o.ImageArchives[i], err = filepath.Abs(archive); err != nil {
			return o, err
		}
		if _, err := os.Stat(archive); err != nil {
			return o, fmt.Errorf("reading an image archive: %w", err)
		}
	}
	return o, nil
}

// description describes the cluster of a run folder. It is written when the cluster is
// complete.
type description struct {
	Options   Options
	Artifacts Artifacts
}

const descriptionFile = "cluster.json"

func (d description) write() error {
	content, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(d.Options.Dir, descriptionFile), content)
}

func readDescription(dir string) (description, error) {
	var d description
	content, err := os.ReadFile(filepath.Join(dir, descriptionFile))
	if errors.Is(err, os.ErrNotExist) {
		return d, fmt.Errorf("%w in %s", ErrNotRunning, dir)
	}
	if err != nil {
		return d, err
	}
	if err := json.Unmarshal(content, &d); err != nil {
		return d, fmt.Errorf("reading %s: %w", filepath.Join(dir, descriptionFile), err)
	}
	return d, nil
}

// goSettings returns variables of the environment of all components, which are Go programs. Tests wait for the CPU:
// garbage collection takes its share, and the machine has memory; and it costs time to wake a second processor.
func (o Options) goSettings() []string {
	if o.GOGC != 0 {
		return []string{fmt.Sprintf("GOGC=%d", o.GOGC)}
	}
	return []string{"GOGC=400", "GOMAXPROCS=1"}
}
