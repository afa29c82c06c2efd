// Package attachment turns NetworkAttachmentDefinitions, pod annotations and claims into the list
// of interfaces that a pod gets. It performs no I/O.
//
//	NAD ────────── ParseNetwork ────► Network ─┐
//	annotation ─── ParseSelections ─► Selection ┴ NewPlan ─► Plan = []Attachment
//	claim ──────── FromClaim ───────► Selection ┘
//
// It is the only parser of them, for the node driver, the webhook and the command line. Its types
// are plain values: each stage returns new values and does not change those of another stage. CNI
// configuration stays raw JSON. nadra only touches the keys that it must set, so that numbers,
// unknown keys and their values reach the plugins as their author wrote them.
//
// Numbers such as "behaviour A2-18" refer to the project's inventory of what Multus and the NPWG
// standard do.
//
// Networks:
//
//	attacher.go   who attaches a pod's networks
//	network.go    parses NetworkAttachmentDefinitions
//	conflist.go   turns a configuration into a list of plugins and checks it
//	plugin.go     what nadra reads of a plugin's configuration
//	master.go     the host's interface that a plugin needs
//	ipam.go       IPAM plugins of an attachment
//	merge.go      edits keys of a network's plugins
//	names.go      names of devices and DeviceClasses of networks
//	networkid.go  IDs by which devices list networks
//	pool.go       the resource pool of a network
//	isolation.go  which networks a pod may use
//	ref.go        names of networks, pods and claims
//
// Selections, which are requested networks:
//
//	selection.go        the networks annotation
//	selection_json.go   its JSON form
//	selection_names.go  its comma form
//	config.go           selections as configs of claims, and back
//	claimrequests.go    networks that the spec of an unallocated claim requests
//	claim.go            networks that an allocated claim requests
//	claimspec.go        the spec of a claim for a list of networks
//	consumer.go         the pods or the PodGroup that a claim is reserved for
//
// Attachments:
//
//	plan.go               a pod's attachments, with the checks across networks
//	attachment.go         one attachment: what CNI ADD and DEL need besides the sandbox
//	satisfies.go          whether it is what a selection requests
//	hardware.go           devices of resource pools, and which network gets which
//	otherdriverdevice.go  devices that another driver publishes for CNI
//	plugindevice.go       devices that device plugins have given to a pod
//	prepared.go           attachments with the allocated device, as records keep them
//	sandbox.go            a pod's sandbox
//	networkstatus.go      who has written network-status
//	launcher.go           the label of virtual machines' pods
//
// Helpers:
//
//	limits.go     limits of all networks of a pod together
//	jsonerror.go  errors of JSON with line, column and hint
//	rawjson.go    JSON objects with raw values
package attachment
