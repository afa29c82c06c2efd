// Package hwdevices publishes the functions of network cards that belong to resource pools
// as ResourceSlices, and describes what pods get with them:
//
//	publisher.go     follows changes and publishes
//	decide.go        decides whether a function is offered, or why it is withheld
//	poolsources.go   watches and reads the definitions of resource pools
//	podresources.go  lists the devices that device plugins have given to pods, and to one pod
//	watch.go         watches the hardware
//	devices.go       makes devices of the functions of pools
//	slices.go        makes ResourceSlices of devices
//	view.go          the devices as Prepare, metrics and device health see them
//	deviceforpod.go  the files and information that a pod gets with a device
package hwdevices
