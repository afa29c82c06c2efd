package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
)

// multusSide runs Multus as a container runtime runs a CNI plugin.
type multusSide struct{ w *world }

// lateAnswer matches errors of a slow API server, because Multus allows a request a quarter
// of a second. A runtime would retry with a new sandbox.
var lateAnswer = regexp.MustCompile(`context deadline exceeded|i/o timeout|rate limiter Wait|TLS handshake timeout`)

const lateTries = 4

func (m multusSide) start(ctx context.Context, s sandbox) (string, error) {
	for try := 1; ; try++ {
		why, err := m.call(ctx, "ADD", s)
		if err != nil || why == "" || !lateAnswer.MatchString(why) || try == lateTries {
			return why, err
		}
		if _, err := m.call(ctx, "DEL", s); err != nil {
			return "", err
		}
		if err := removeContent(tracePath); err != nil {
			return "", err
		}
	}
}

func (m multusSide) stop(ctx context.Context, s sandbox) (string, error) {
	return m.call(ctx, "DEL", s)
}

func (m multusSide) own() (dirs, ids []string) { return []string{multusCache}, nil }

// call runs Multus and returns its error message, or "".
func (m multusSide) call(ctx context.Context, command string, s sandbox) (why string, err error) {
	conf, err := m.conf(s.c)
	if err != nil {
		return "", err
	}
	var args []string
	for _, pair := range s.args() {
		args = append(args, pair[0]+"="+pair[1])
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, m.w.programs.Multus)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(conf), &stdout, &stderr
	cmd.Env = append(os.Environ(),
		"CNI_COMMAND="+command, "CNI_CONTAINERID="+s.id, "CNI_NETNS="+s.netns, "CNI_IFNAME="+defaultInterface,
		"CNI_PATH="+binDir, "CNI_ARGS="+strings.Join(args, ";"))
	if err := cmd.Run(); err == nil {
		return "", nil
	}
	var reported types.Error
	if json.Unmarshal(stdout.Bytes(), &reported) != nil || reported.Msg == "" {
		return fmt.Sprintf("multus crashes: %s", strings.TrimSpace(stdout.String()+stderr.String())), ctx.Err()
	}
	return reported.Error(), nil
}

// conf returns Multus' configuration, with the runtimeConfig that the runtime passes to the
// default network.
func (m multusSide) conf(c Case) ([]byte, error) {
	conf := map[string]any{
		"cniVersion": "1.0.0", "name": "multus-cni-network", "type": "multus",
		"kubeconfig": m.w.kubeconf, "cniDir": multusCache, "binDir": binDir, "confDir": confDir(c),
		"delegates":    []json.RawMessage{json.RawMessage(c.defaultConf())},
		"capabilities": map[string]bool{"portMappings": true, "bandwidth": true},
		"logLevel":     "panic", "logToStderr": true,
	}
	if c.Runtime != nil {
		conf["runtimeConfig"] = c.Runtime
	}
	return json.Marshal(conf)
}
