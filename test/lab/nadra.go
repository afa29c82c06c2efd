package lab

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
)

// Output has a command's output and exit status.
type Output struct {
	Out, Err string
	Code     int
}

// Nadra runs bin/kubectl-nadra, without the real kubectl in between, which takes longer
// to start than most commands take. It returns an error if the program could not run.
func (l *Lab) Nadra(ctx context.Context, args ...string) (Output, error) {
	machine := l.Cluster.ControlPlane()
	command := machine.Command(ctx, Built("kubectl-nadra"), args...)
	var out, errs bytes.Buffer
	command.Stdout, command.Stderr = &out, &errs
	if err := machine.Run(command); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return Output{}, err
	}
	return Output{out.String(), errs.String(), command.ProcessState.ExitCode()}, nil
}
