// Command agent is the guest's only own program. As /init it loads the modules, changes to
// the disk and sets the machine up. Then it runs the host's commands, and describes network
// namespaces. The host also runs it to record sysfs and to set up virtual functions.
package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

func main() {
	if os.Getpid() == 1 {
		err := boot()
		fmt.Fprintln(os.Stderr, "vm-agent:", err)
		// The kernel panics when its first process ends, so power off.
		_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
		time.Sleep(time.Hour)
	}
	if err := tool(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "vm-agent:", err)
		os.Exit(1)
	}
}

// tool runs one of the commands that the host knows.
func tool(args []string, out io.Writer) error {
	switch {
	case len(args) == 1 && args[0] == "serve":
		return serve()
	case len(args) == 1 && args[0] == "sysfs":
		return recordSysfs(out, "/sys")
	case len(args) > 3 && args[0] == "vf":
		return setVF(args[1], args[2], args[3:])
	}
	return fmt.Errorf("agent serve | sysfs | vf PF INDEX KEY=VALUE…: not %q", args)
}
