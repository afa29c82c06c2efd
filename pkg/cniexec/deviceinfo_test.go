package cniexec

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const deviceInfo = `{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:03:02.1"}}`

// Plugins that declare the capability get the path to write to, DeviceInfo returns what
// they wrote, and DEL removes it (behaviours A5-60, A5-62, A5-63, A5-65).
func TestDeviceInfo(t *testing.T) {
	w := newWorld(t)
	a := conflist("writes")
	a.Conflist = json.RawMessage(strings.Replace(string(a.Conflist), `"ips"`, `"CNIDeviceInfoFile"`, 1))
	if want := "/var/run/k8s.cni.cncf.io/devinfo/cni/default-blue-0123456789ab_net1"; w.infoPath(sandbox, a) != want {
		t.Errorf("the path is %s, want %s", w.infoPath(sandbox, a), want)
	}
	w.infoDir = filepath.Join(w.dir, "devinfo")
	path := w.infoPath(sandbox, a)
	w.plugin(t, "writes", `cat >>$DIR/log; echo >>$DIR/log; [ $CNI_COMMAND = ADD ] && echo '`+deviceInfo+`' >"$(sed -n 's/.*"CNIDeviceInfoFile":"\([^"]*\)".*/\1/p' $DIR/log)" && echo '`+result+`' || true`)
	if _, err := w.Add(t.Context(), sandbox, a, nil); err != nil {
		t.Fatal(err)
	}
	info, err := w.DeviceInfo(sandbox, a)
	if err != nil || strings.TrimSpace(string(info)) != deviceInfo {
		t.Errorf("device information %s, %v", info, err)
	}
	if err := w.Del(t.Context(), sandbox, a, nil); err != nil {
		t.Fatal(err)
	}
	if info, err := w.DeviceInfo(sandbox, a); info != nil || err != nil {
		t.Errorf("after DEL: %s, %v", info, err)
	}
	for _, line := range w.log(t) {
		if !strings.Contains(line, `"CNIDeviceInfoFile":"`+path+`"`) {
			t.Errorf("a plugin was given %s", line)
		}
	}
}

// TestDeviceInfoOfLongNames checks that a network with a long name has a file whose name fits, that DEL
// ends, and that a path which cannot exist is no error.
func TestDeviceInfoOfLongNames(t *testing.T) {
	w := newWorld(t)
	a := conflist("writes")
	a.Conflist = json.RawMessage(strings.Replace(string(a.Conflist), `"ips"`, `"CNIDeviceInfoFile"`, 1))
	a.Network.Name = strings.Repeat("n", 253)
	w.infoDir = filepath.Join(w.dir, "devinfo")
	w.plugin(t, "writes", `cat >>$DIR/log; echo >>$DIR/log; [ $CNI_COMMAND = ADD ] && echo '`+deviceInfo+`' >"$(sed -n 's/.*"CNIDeviceInfoFile":"\([^"]*\)".*/\1/p' $DIR/log)" && echo '`+result+`' || true`)
	if _, err := w.Add(t.Context(), sandbox, a, nil); err != nil {
		t.Fatal(err)
	}
	if info, err := w.DeviceInfo(sandbox, a); err != nil || len(info) == 0 {
		t.Errorf("device information %s, %v", info, err)
	}
	if err := w.Del(t.Context(), sandbox, a, nil); err != nil {
		t.Fatal(err)
	}
	if err := w.removeInfo(filepath.Join(w.infoDir, "cni", strings.Repeat("n", 300))); err != nil {
		t.Error(err)
	}
	a.ResourceName, a.CapabilityArgs = strings.Repeat("r", 300), map[string]json.RawMessage{"deviceID": json.RawMessage(`"d"`)}
	if info, err := w.devicePluginInfo(a); info != nil || err != nil {
		t.Errorf("of a device plugin: %s, %v", info, err)
	}
}

// The device plugin's information is there before ADD, for plugins that add to it and for
// plugins that ignore it (behaviour A5-61).
func TestDeviceInfoOfTheDevicePlugin(t *testing.T) {
	w := newWorld(t)
	w.infoDir = filepath.Join(w.dir, "devinfo")
	write(t, filepath.Join(w.infoDir, "dp"), "intel.com-sriov-0000:03:02.1-device.json", deviceInfo)
	w.plugin(t, "silent", `cat >/dev/null; [ $CNI_COMMAND = ADD ] && echo '`+result+`' || true`)
	a := conflist("silent")
	a.ResourceName = "intel.com/sriov"
	a.CapabilityArgs = map[string]json.RawMessage{"deviceID": json.RawMessage(`"0000:03:02.1"`)}
	if _, err := w.Add(t.Context(), sandbox, a, nil); err != nil {
		t.Fatal(err)
	}
	if info, err := w.DeviceInfo(sandbox, a); err != nil || string(info) != deviceInfo {
		t.Errorf("device information %s, %v", info, err)
	}
	if err := w.Del(t.Context(), sandbox, a, nil); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(filepath.Join(w.infoDir, "cni")); err != nil || len(left) > 0 {
		t.Errorf("left after DEL: %v, %v", left, err)
	}
}

// An invalid file of device information is an error that says why.
func TestInvalidDeviceInfo(t *testing.T) {
	w := newWorld(t)
	w.infoDir = filepath.Join(w.dir, "devinfo")
	a := conflist("any")
	for text, want := range map[string]string{"{": "not valid JSON", strings.Repeat(" ", maxInfo+1): "65536 bytes"} {
		path := w.infoPath(sandbox, a)
		write(t, filepath.Dir(path), filepath.Base(path), text)
		if _, err := w.DeviceInfo(sandbox, a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v lacks %q", err, want)
		}
	}
}
