package lab

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
)

// Said is what a command has written, and how it ended.
type Said struct {
	Out, Err string
	Code     int
}

// Nadra runs `kubectl nadra`: the real kubectl finds the plugin, as it was
// built, in its path. An error is that it could not be run.
func (l *Lab) Nadra(ctx context.Context, args ...string) (Said, error) {
	script := `PATH="` + filepath.Join(Root(), "bin") + `:$PATH" exec kubectl nadra "$@"`
	machine := l.Cluster.ControlPlane()
	command := machine.Command(ctx, "sh", append([]string{"-c", script, "sh"}, args...)...)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := machine.Run(command); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return Said{}, err
	}
	return Said{out.String(), errs.String(), command.ProcessState.ExitCode()}, nil
}
