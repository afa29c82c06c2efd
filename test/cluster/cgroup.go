package cluster

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// cgroup is a control group that has the same path in every hierarchy of the
// real machine, like "/nadra-1a2b3c4d/node-1". The mounts of the hierarchies
// are never changed; only these directories are made and removed.
type cgroup string

// hierarchy is a mounted tree of control groups.
type hierarchy struct {
	path    string
	unified bool
}

// hierarchies lists what is mounted: on cgroup v1 one for each controller and
// possibly a unified one without controllers, on v2 only the unified one.
func hierarchies() ([]hierarchy, error) {
	file, err := os.Open("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var all []hierarchy
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		fields := strings.Fields(scanner.Text())
		if len(fields) < 3 || !strings.HasPrefix(fields[1], "/sys/fs/cgroup") {
			continue
		}
		switch fields[2] {
		case "cgroup":
			all = append(all, hierarchy{path: fields[1]})
		case "cgroup2":
			all = append(all, hierarchy{path: fields[1], unified: true})
		}
	}
	if len(all) == 0 {
		return nil, errors.New("no control groups are mounted below /sys/fs/cgroup; " +
			"'ip netns exec' hides them: enter the network namespace with 'nsenter --net=FILE' instead")
	}
	return all, nil
}

// create makes the group and its parents everywhere. Kubelet wants its root to
// exist in every hierarchy that has controllers.
func (g cgroup) create() error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	for _, h := range all {
		if h.unified && len(all) > 1 {
			continue // hybrid: the container runtime makes what it needs
		}
		dir := h.path
		for part := range strings.SplitSeq(strings.Trim(string(g), "/"), "/") {
			parent := dir
			dir = filepath.Join(dir, part)
			if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
				return fmt.Errorf("making control group: %w", err)
			}
			if err := equip(parent, dir); err != nil {
				return fmt.Errorf("equipping control group %s: %w", dir, err)
			}
		}
	}
	return nil
}

// equip makes a new group usable for processes: on v1 a cpuset starts empty,
// on v2 a parent has to hand its controllers down.
func equip(parent, dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		content, err := os.ReadFile(filepath.Join(parent, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue // not the hierarchy of the cpuset controller
		}
		if err != nil {
			return err
		}
		if len(strings.TrimSpace(string(content))) == 0 {
			continue // v2: empty means inherited
		}
		if err := os.WriteFile(filepath.Join(dir, name), content, 0); err != nil {
			return err
		}
	}
	controllers, err := os.ReadFile(filepath.Join(parent, "cgroup.controllers"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // v1
	}
	if err != nil {
		return err
	}
	for name := range strings.FieldsSeq(string(controllers)) {
		// One by one: kubelet either does not need a controller that the kernel refuses, or
		// reports it by name.
		_ = os.WriteFile(filepath.Join(parent, "cgroup.subtree_control"), []byte("+"+name), 0)
	}
	return nil
}

// remove removes the group with all that is below it, from every hierarchy.
// Its processes have ended, but may take a moment to leave their groups.
func (g cgroup) remove(ctx context.Context) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	return poll(ctx, time.Minute, "removing control group "+string(g), func(context.Context) (bool, error) {
		var problems error
		for _, h := range all {
			problems = errors.Join(problems, removeGroups(filepath.Join(h.path, string(g))))
		}
		return problems == nil, problems
	})
}

// removeGroups removes a directory of control groups, the deepest first.
func removeGroups(dir string) error {
	var groups []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			groups = append(groups, path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	for _, group := range slices.Backward(groups) {
		if err := os.Remove(group); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
