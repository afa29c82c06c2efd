// Package translate converts pods that request networks by annotation to pods that request
// them by claim. It takes manifests and returns manifests and findings, and performs no I/O.
//
//	text ── parse ─► document ── objects ─► workload ── planPod ─► edits, templates, findings
//	  ▲                                                             │
//	  └─────────────────── yamledit.Edit ◄──────────────────────────┘
//
// The command line (Convert, whole manifests) and the webhook (Pod, one pod) apply the same
// rules, so the webhook does what the command line prints.
//
// An edit is an operation of JSON Patch. The webhook returns the edits themselves.
// internal/yamledit applies them to the text of a manifest and leaves every other byte as it is.
// A document that it cannot edit stays unchanged, with a finding.
//
// Networks are those of the input, and those that Options.Lookup finds in a cluster.
//
// The conversion:
//
//	convert.go      Convert: the input as a whole, and the objects to create
//	file.go         one file: its documents, objects and verdicts
//	single.go       Pod: one pod, for the webhook
//	pod.go          the plan for one pod, and its containers
//	annotation.go   reads the networks annotation
//	element.go      the keys of the annotation's elements
//	selection.go    what a selection asks for, as features
//	claim.go        claim templates, and references to them
//	class.go        DeviceClasses of networks
//	devices.go      where a network gets its device from
//	resources.go    matches devices in limits and requests with networks
//	nodeselector.go node labels of networks
//	podinfo.go      the volume with the pod's labels, annotations and huge pages
//	readers.go      other readers of the annotation, which keep it
//	edit.go         the types of edits
//
// What is in the input:
//
//	environment.go    the options, and what the rules know about other objects
//	index.go          records networks, classes, templates and other objects
//	kinds.go          the kinds that the rules read
//	manifest.go       files and documents
//	names.go          names that the API server refuses
//	unrendered.go     manifests that must be rendered first
//	kustomization.go  what kustomizations do to the files that they name
//	deployments.go    the namespaces to which GitOps controllers deploy folders
//	node.go           reads values of YAML nodes
//	workload.go       objects and their pod templates
//	network.go        NetworkAttachmentDefinitions
//	plugins.go        facts about CNI plugins
//	operators.go      networks that network operators make
//	poolserver.go     what serves a resource pool
//	hazards.go        addresses and routes of networks that may harm pods
//	nodefacts.go      plugins and interfaces of nodes
//	template.go       ResourceClaimTemplates of the input and the cluster
//	byhand.go         claims that were written by hand
//	converted.go      claims of an earlier conversion
//	runtimeclass.go   pods in virtual machines
//	virtualmachine.go virtual machines of KubeVirt
//	podrules.go       rules about a pod and its networks
//	copies.go         addresses that several pods get
//	sysctls.go        sysctls of a pod for interfaces of its networks
//	quota.go          rules about quotas
//
// The results:
//
//	codes.go   the codes of findings
//	rules.go   the meaning, reason and remedy of each code
//	finding.go findings, positions and verdicts
//	report.go  collects the findings of one object
//	owner.go   owners of objects
//	created.go objects to create, as text
package translate
