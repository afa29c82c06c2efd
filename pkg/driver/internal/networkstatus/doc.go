// Package networkstatus stores the annotation k8s.v1.cni.cncf.io/network-status.
package networkstatus
