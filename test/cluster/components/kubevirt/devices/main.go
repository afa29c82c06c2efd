// Program devices runs in a launcher pod's container and looks for the device of each network by claim, by the code
// of virt-launcher. It reads the machine's instance as JSON from standard input, and prints a line for each network:
// its name, and the PCI address or why there is none.
package main

import (
	"encoding/json"
	"fmt"
	"log"
	"os"

	virtv1 "kubevirt.io/api/core/v1"
	"kubevirt.io/kubevirt/pkg/dra"
)

func main() {
	log.SetFlags(0)
	instance := &virtv1.VirtualMachineInstance{}
	if err := json.NewDecoder(os.Stdin).Decode(instance); err != nil {
		log.Fatalf("reading the instance: %v", err)
	}
	for _, n := range instance.Spec.Networks {
		if n.ResourceClaim == nil {
			continue
		}
		found, err := dra.GetPCIAddressForClaim(dra.DefaultMetadataBasePath, instance.Spec.ResourceClaims, n.ResourceClaim.ClaimName, n.ResourceClaim.RequestName)
		if err != nil {
			found = err.Error()
		}
		fmt.Println(n.Name, found)
	}
}
