package cli

import (
	"bytes"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// TestConfirmNamesTheCluster asks at a terminal: the question names the connected cluster, and shows control characters.
func TestConfirmNamesTheCluster(t *testing.T) {
	for answer, want := range map[string]bool{"y": true, "n": false} {
		master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Fatalf("opening a terminal: %v", err)
		}
		defer func() { _ = master.Close() }()
		number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
		if err == nil {
			err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Fatalf("opening a terminal: %v", err)
		}
		defer func() { _ = terminal.Close() }()
		if _, err := fmt.Fprintln(master, answer); err != nil {
			t.Fatal(err)
		}
		var asked bytes.Buffer
		name := "prod\x1b[2J"
		o := runFlags{app: &app{IOStreams: genericiooptions.IOStreams{In: terminal, ErrOut: &asked}}}
		o.cluster = &clusterFlags{ConfigFlags: genericclioptions.NewConfigFlags(false)}
		o.cluster.Context = &name
		err = o.confirm("Run the plan, made for cluster staging\nOn cluster staging: Run it?")
		if (err == nil) != want {
			t.Errorf("%s: error %v", answer, err)
		}
		if want := `On cluster prod\x1b[2J: Run the plan, made for cluster staging\nOn cluster staging: Run it? [y/N] `; asked.String() != want {
			t.Errorf("it asked %q, want %q", asked.String(), want)
		}
	}
}
