//go:build e2e

package attacks

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/test/lab"
)

const manifests = `apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: blue, namespace: default}
spec: {config: '{"cniVersion":"1.0.0","type":"macvlan","master":"eth1","ipam":{}}'}
---
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: default, annotations: {k8s.v1.cni.cncf.io/networks: blue}}
spec: {containers: [{name: main, image: example.com/web}]}
`

// TestAttackDesk gives kubectl nadra a folder that somebody else has made: links that lead out of it, files
// that have no end, and networks with secrets under names of their own.
func TestAttackDesk(t *testing.T) {
	a := &attempt{Fixture: lab.Fixture{Lab: theLab, T: t, Ctx: interrupted}}
	a.try("convert --in-place through a link", func(a *attempt) {
		dir, outside := a.TempDir(), filepath.Join(a.TempDir(), "theirs.yaml")
		a.Must(os.WriteFile(outside, []byte(manifests), 0o600))
		a.Must(os.WriteFile(filepath.Join(dir, "own.yaml"), []byte(manifests), 0o600))
		a.Must(os.Symlink(outside, filepath.Join(dir, "link.yaml")))
		_, printed := a.desk(30*time.Second, nil, "convert", "-R", "-f", dir, "--in-place")
		a.Logf("%.500s", printed)
		now, err := os.ReadFile(outside)
		a.Must(err)
		if string(now) != manifests {
			a.harmed("a file outside of the folder was changed")
		}
	})
	a.try("a FIFO and SIGTERM", func(a *attempt) {
		dir := a.TempDir()
		a.Must(unix.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600))
		ended, printed := a.desk(10*time.Second, func(p *os.Process) {
			a.Must(a.throughout(2*time.Second, func(context.Context) error { return nil }))
			_ = p.Signal(unix.SIGTERM) // it may have ended
		}, "scan", "-R", "-f", dir)
		a.Logf("%.500s", printed)
		if !ended {
			a.harmed("the command still runs 8 seconds after SIGTERM")
		}
	})
	a.try("a link to /dev/zero", func(a *attempt) {
		dir := a.TempDir()
		a.Must(os.Symlink("/dev/zero", filepath.Join(dir, "zero.yaml")))
		ended, printed := a.desk(time.Minute, nil, "scan", "-R", "-f", dir)
		a.Logf("%.500s", printed)
		if !ended || strings.Contains(printed, "out of memory") || strings.Contains(printed, "cannot allocate") {
			a.harmed("the command does not end, or dies of memory")
		}
	})
	a.try("secrets of a NAD in a bundle", (*attempt).bundle)
}

// secretNames are the names of fields under which configurations of plugins have had secrets.
var secretNames = []string{
	"dsn", "cak", "ckn", "bgpMD5", "radius_shared", "wgPriv", "psk", "preshared", "community", "pass", "pwd", "pin", "auth", "bindPw", "krb5",
	"license", "seed", "otp", "sharedKey", "snmpV3", "tacacs", "ikeId", "connection", "url", "webhookUrl", "header", "cookie", "blob",
}

func (a *attempt) bundle() {
	group := setup(a.T, "bundled")
	fields := ""
	for i, name := range secretNames {
		fields += fmt.Sprintf(`,%q:"%s"`, name, secret(i))
	}
	group.Must(group.CreateNAD(group.Ctx, group.NS, "secret", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-secret","ipam":{}`+fields+`}`))
	printed, err := a.Nadra(group.Ctx, "bundle", "-n", group.NS, "-q", "--output-file", "-")
	a.Must(err)
	if printed.Code != 0 {
		a.Fatalf("bundle ends with %d: %s", printed.Code, printed.Err)
	}
	compressed, err := gzip.NewReader(strings.NewReader(printed.Out))
	a.Must(err)
	archive := tar.NewReader(compressed)
	var through []string
	for files := 0; ; files++ {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) && files > 0 {
			break
		}
		a.Must(err)
		content, err := io.ReadAll(archive)
		a.Must(err)
		for i, name := range secretNames {
			if bytes.Contains(content, []byte(secret(i))) {
				through = append(through, name+" in "+filepath.Base(header.Name))
			}
		}
	}
	if len(through) > 0 {
		a.harmed("%d of %d secrets are in the archive: %s", len(through), len(secretNames), strings.Join(through, ", "))
	}
}

// secret returns a value that looks like a word.
func secret(i int) string { return fmt.Sprintf("gladiolus%dmeadow", i) }

// desk runs kubectl-nadra on this machine with little memory, calls meanwhile with its process, and
// returns whether it ended in time, and what it printed.
func (a *attempt) desk(limit time.Duration, meanwhile func(*os.Process), args ...string) (ended bool, printed string) {
	a.Helper()
	ctx, cancel := context.WithTimeout(a.Ctx, limit)
	defer cancel()
	command := exec.CommandContext(ctx, "sh", append([]string{"-c", `ulimit -v 4000000; exec "$@"`, "sh", lab.Built("kubectl-nadra")}, args...)...)
	command.Env = append(os.Environ(), "KUBECONFIG=/dev/null")
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	a.Must(command.Start())
	if meanwhile != nil {
		meanwhile(command.Process)
	}
	err := command.Wait()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		a.Fatal(err)
	}
	return ctx.Err() == nil, fmt.Sprint(out.String(), err)
}
