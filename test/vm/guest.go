package vm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
	"github.com/nadra-dev/nadra/test/vm/wire"
)

// Guest is the host's client of the running virtual machine.
type Guest struct {
	*cluster.Guest
	machine *machine
	client  *http.Client
}

func newGuest(c *cluster.Cluster, m *machine) *Guest {
	return &Guest{
		Guest: c.Guests()[0], machine: m,
		client: &http.Client{Transport: &http.Transport{DialContext: c.ControlPlane().Dial}},
	}
}

func (g *Guest) url(path string) string { return "http://" + g.IP() + ":" + wire.Port + path }

// bootLimit is how long the guest may take until its agent answers.
const bootLimit = 4 * time.Minute

// waitAgent waits until the agent has set the machine up.
func (g *Guest) waitAgent(ctx context.Context) error {
	var final error
	err := lab.Eventually(ctx, bootLimit, func(ctx context.Context) error {
		select {
		case <-g.machine.ended:
			final = g.machine.err
			return nil
		default:
		}
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, g.url("/ready"), nil)
		if err != nil {
			return err
		}
		response, err := g.client.Do(request)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			problem, err := io.ReadAll(response.Body)
			final = errors.Join(fmt.Errorf("setting up the guest's hardware: %s", problem), err)
		}
		return nil
	})
	if err = errors.Join(err, final); err != nil {
		return fmt.Errorf("booting the guest: %w\nlast on its console:\n%s", err, g.machine.consoleTail())
	}
	return nil
}

// Run runs a program in the guest and returns its output.
func (g *Guest) Run(ctx context.Context, argv ...string) (string, error) {
	return g.run(ctx, wire.Command{Argv: argv})
}

// Shell runs a script of busybox' shell in the guest.
func (g *Guest) Shell(ctx context.Context, script string) (string, error) {
	return g.Run(ctx, "sh", "-c", script)
}

// RunInPod runs a program of the guest in the network namespace of a pod. lab.Exec runs the
// pod's own programs, which takes seconds.
func (g *Guest) RunInPod(ctx context.Context, pod *corev1.Pod, argv ...string) (string, error) {
	return g.run(ctx, wire.Command{Argv: argv, Pod: string(pod.UID)})
}

// Daemon starts a program that runs as long as the guest.
func (g *Guest) Daemon(ctx context.Context, log string, argv ...string) error {
	_, err := g.run(ctx, wire.Command{Argv: argv, Log: log})
	return err
}

func (g *Guest) run(ctx context.Context, command wire.Command) (string, error) {
	outcome, err := g.ask(ctx, command)
	switch {
	case err != nil:
	case outcome.Error != "":
		err = errors.New(outcome.Error)
	case outcome.Code != 0:
		err = fmt.Errorf("exit status %d: %s%s", outcome.Code, outcome.Stderr, outcome.Stdout)
	}
	if err != nil {
		return string(outcome.Stdout), fmt.Errorf("running %q in the guest: %w", strings.Join(command.Argv, " "), err)
	}
	return string(outcome.Stdout), nil
}

func (g *Guest) ask(ctx context.Context, command wire.Command) (outcome wire.Outcome, err error) {
	content, err := json.Marshal(command)
	if err != nil {
		return outcome, err
	}
	err = g.call(ctx, http.MethodPost, "/run", bytes.NewReader(content), &outcome)
	return outcome, err
}

// call sends a request to the agent and decodes its answer.
func (g *Guest) call(ctx context.Context, method, path string, body io.Reader, answer any) error {
	request, err := http.NewRequestWithContext(ctx, method, g.url(path), body)
	if err != nil {
		return err
	}
	response, err := g.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		problem, _ := io.ReadAll(response.Body)
		return fmt.Errorf("the agent answers %s: %s", response.Status, problem)
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

// Net describes the guest's own network namespace.
func (g *Guest) Net(ctx context.Context) (wire.Net, error) { return g.net(ctx, "") }

// PodNet describes the network namespace of a pod.
func (g *Guest) PodNet(ctx context.Context, pod *corev1.Pod) (wire.Net, error) {
	return g.net(ctx, string(pod.UID))
}

func (g *Guest) net(ctx context.Context, pod string) (seen wire.Net, err error) {
	err = g.call(ctx, http.MethodGet, "/net?pod="+pod, nil, &seen)
	return seen, err
}

// bootID returns the ID of the guest's boot.
func (g *Guest) bootID(ctx context.Context) (string, error) {
	id, err := g.Run(ctx, "cat", "/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(id), err
}
