// Program launcher stands in for the programs of KubeVirt's launcher pods: it keeps the pod running, as a
// guest does, and ends when it is asked to. With the argument "end" it asks the container's first process.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "end" {
		if err := syscall.Kill(1, syscall.SIGTERM); err != nil {
			fmt.Fprintln(os.Stderr, "ending the container's first process:", err)
			os.Exit(1)
		}
		return
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT)
	<-asked
}
