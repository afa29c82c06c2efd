package cluster

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

const goMod = "go.mod"

// goBuild is a component made by one run of the go command.
type goBuild struct {
	name, version string
	dir           string   // of the module
	modfile       string   // in dir; default go.mod
	sources       []string // patterns of the files that count, besides modfile and its sums; default all .go files in dir
	cgo           bool
	tags, ldflags string
	output        string // name of the program, if not its package's
	packages      []string
	links         []string // further names of the program
}

// args returns the arguments of the go command, without the output.
func (g goBuild) args() []string {
	args := []string{"build", "-trimpath"}
	if g.modfile != "" {
		args = append(args, "-modfile="+g.modfile)
	}
	if g.tags != "" {
		args = append(args, "-tags", g.tags)
	}
	return append(args, "-ldflags", "-s -w"+g.ldflags)
}

func (g goBuild) environment() []string {
	if g.cgo {
		return []string{"CGO_ENABLED=1"}
	}
	return []string{"CGO_ENABLED=0"}
}

// recipe returns the recipe with its inputs: sources, flags and the version of Go.
func (g goBuild) recipe(ctx context.Context) (*recipe, error) {
	r := &recipe{name: g.name, version: g.version, cook: g.run}
	goVersion, err := g.command(ctx, "version").Output()
	if err != nil {
		return r, fmt.Errorf("asking for the version of Go in %s: %w", g.dir, err)
	}
	r.salt = append(r.salt, strings.TrimSpace(string(goVersion)))
	r.salt = append(r.salt, g.args()...)
	r.salt = append(r.salt, g.environment()...)
	r.salt = append(r.salt, g.packages...)
	r.salt = append(r.salt, g.links...)
	r.inputs, err = g.inputs()
	return r, err
}

func (g goBuild) inputs() ([]string, error) {
	patterns := g.sources
	if patterns == nil {
		patterns = []string{"*.go"}
	}
	var inputs []string
	modfile := cmp.Or(g.modfile, goMod)
	for _, pattern := range append([]string{modfile, strings.TrimSuffix(modfile, ".mod") + ".sum"}, patterns...) {
		found, err := filepath.Glob(filepath.Join(g.dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, path := range found {
			if !strings.HasSuffix(path, "_test.go") {
				inputs = append(inputs, path)
			}
		}
	}
	return inputs, nil
}

// run builds into a folder.
func (g goBuild) run(ctx context.Context, into string) error {
	args := append(g.args(), "-o", into+"/"+g.output)
	cmd := g.command(ctx, append(args, g.packages...)...)
	// The kernel kills the build when this process ends, because it would go on for
	// minutes. The end of the thread that starts it counts as the end of the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &messages, &messages
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, tail(messages.Bytes(), 40))
	}
	for _, link := range g.links {
		if err := os.Symlink(g.output, filepath.Join(into, link)); err != nil {
			return err
		}
	}
	return nil
}

func (g goBuild) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = g.dir
	cmd.Env = append(os.Environ(), g.environment()...)
	// A workspace would replace the versions that the component pins.
	cmd.Env = append(cmd.Env, "GOWORK=off")
	return cmd
}

// tail returns the last lines of a program's output.
func tail(output []byte, lines int) string {
	all := strings.Split(strings.TrimRight(string(output), "\n"), "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.Join(all, "\n")
}
