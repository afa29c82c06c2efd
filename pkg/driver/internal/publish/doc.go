// Package publish publishes the networks that this node can attach as ResourceSlices:
//
//	publisher.go     follows changes and publishes
//	decide.go        decides whether a network is published, or why it is withheld
//	definition.go    reads NADs
//	nads.go          watches NADs
//	host.go          checks masters and plugins on this node
//	status.go        asks plugins by STATUS whether they can attach
//	otherdrivers.go  watches the devices of other drivers for CNI
//	links.go         lists and watches the host's network interfaces
//	view.go          the networks as Prepare, metrics and device health see them
//	places.go        divides the networks into devices and slices
//	devices.go       makes the devices
//	nodepods.go      reads how many pods the node takes
//	addresses.go     counts the addresses of host-local
//	spread.go        spreads the nodes' writes over time
package publish
