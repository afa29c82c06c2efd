package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRecordSysfs(t *testing.T) {
	root := t.TempDir()
	const card, bridge = "devices/pci0000:20/0000:21:00.0", "devices/pci0000:20/0000:20:00.0"
	for path, content := range map[string]string{
		card + "/class":                         "0x020000\n",
		card + "/sriov_numvfs":                  "4\n",
		card + "/rom":                           "not of interest",
		card + "/net/pf0/address":               "52:54:00:11:00:00\n",
		card + "/net/pf0/statistics/rx_packets": "1\n",
		card + "/uevent":                        "DRIVER=igb\nPCI_SLOT_NAME=0000:21:00.0\n",
		bridge + "/class":                       "0x060400\n",
		"class/net/bonding_masters":             "",
	} {
		write(t, filepath.Join(root, path), content)
	}
	link(t, "../../../"+card, filepath.Join(root, "bus/pci/devices/0000:21:00.0"))
	link(t, "../../../"+bridge, filepath.Join(root, "bus/pci/devices/0000:20:00.0"))
	link(t, "../../"+card+"/net/pf0", filepath.Join(root, "class/net/pf0"))
	var out strings.Builder
	if err := recordSysfs(&out, root); err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		"bus/pci/devices/0000:21:00.0 -> ../../../" + card,
		"class/net/pf0 -> ../../" + card + "/net/pf0",
		card + "/",
		card + "/class = 0x020000",
		card + "/net/",
		card + "/net/pf0/",
		card + "/net/pf0/address = 52:54:00:11:00:00",
		card + "/sriov_numvfs = 4",
		card + `/uevent = DRIVER=igb\nPCI_SLOT_NAME=0000:21:00.0`,
	}, "\n") + "\n"
	if out.String() != want {
		t.Errorf("recorded\n%s\nnot\n%s", out.String(), want)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}
