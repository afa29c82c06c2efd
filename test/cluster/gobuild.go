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

// InlineVariable is the environment variable that switches inlining on in the components' own
// packages, as in their releases: 1. Benchmarks set it. Without inlining these packages compile with
// a fifth less CPU.
const InlineVariable = "NADRA_INLINE"

// goBuild is a component made by one run of the go command.
type goBuild struct {
	name, version string
	dir           string   // of the module
	modfile       string   // in dir; default go.mod
	sources       []string // patterns of the files that count, besides modfile and its sums; default all .go files in dir
	cgo           bool
	tags, ldflags string
	own           string // pattern of the component's own packages, which nothing else compiles
	output        string // name of the program, if not its package's
	packages      []string
	links         []string // further names of the program
}

// args returns the arguments of the go command, without the output. They compile packages as
// nadra's own build does, which then has no need to compile those of the same version again.
func (g goBuild) args() []string {
	args := append(g.selection("build", "-v"), "-ldflags", "-s -w"+g.ldflags)
	if g.own != "" && os.Getenv(InlineVariable) != "1" {
		args = append(args, "-gcflags="+g.own+"=-l")
	}
	return args
}

// selection adds to arguments what selects modules and files.
func (g goBuild) selection(args ...string) []string {
	if g.modfile != "" {
		args = append(args, "-modfile="+g.modfile)
	}
	if g.tags != "" {
		args = append(args, "-tags", g.tags)
	}
	return args
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
func (g goBuild) run(ctx context.Context, into string, s *step) error {
	var listing bytes.Buffer
	list := g.command(ctx, append(g.selection("list", "-deps"), g.packages...)...)
	list.Stderr = &listing
	all, err := list.Output()
	if err != nil {
		return fmt.Errorf("listing the packages of %s: %w\n%s", g.dir, err, tail(listing.Bytes(), 40))
	}
	args := append(g.args(), "-o", into+"/"+g.output)
	cmd := g.command(ctx, append(args, g.packages...)...)
	// The compiler collects garbage less often.
	cmd.Env = append(cmd.Env, "GOGC=400")
	// The kernel kills the build when this process ends, because it would go on for
	// minutes. The end of the thread that starts it counts as the end of the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	messages := &compiled{step: s, all: bytes.Count(all, []byte("\n"))}
	cmd.Stdout, cmd.Stderr = messages, messages
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, tail(messages.rest.Bytes(), 40))
	}
	for _, link := range g.links {
		if err := os.Symlink(g.output, filepath.Join(into, link)); err != nil {
			return err
		}
	}
	return nil
}

// compiled reads the output of go build -v: names of packages, and messages.
type compiled struct {
	step      *step
	all, done int
	rest      bytes.Buffer // the messages
}

// Write counts the names, which have a line each, and keeps all else. A line in two writes counts twice.
func (c *compiled) Write(output []byte) (int, error) {
	for line := range bytes.Lines(output) {
		if bytes.ContainsAny(line, " :#\t") {
			c.rest.Write(line)
			continue
		}
		c.done++
		c.step.reached(fmt.Sprintf("compiled %d of at most %d packages, ", c.done, c.all))
	}
	return len(output), nil
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
