// Package networkstatus stores the annotation k8s.v1.cni.cncf.io/network-status:
//
//	text.go      renders it as Multus does
//	writer.go    writes it, which the pod's containers wait for
//	exposure.go  how long addresses were not listed
package networkstatus
