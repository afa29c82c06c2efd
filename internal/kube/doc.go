// Package kube has what nadra's clients of the API server need and client-go lacks, and reads and writes documents with
// an apiVersion and a kind.
package kube
