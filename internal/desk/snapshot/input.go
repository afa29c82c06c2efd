package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/nadra-dev/nadra/internal/desk/inspect"
	"github.com/nadra-dev/nadra/internal/probe"
)

// Input is what a snapshot is built from.
type Input struct {
	inspect.Input
	parents inspect.Parents
	// Nodes are the observations of nodes, by node name.
	Nodes map[string]nodeObservation
	// Known are networks, namespace/name, to record even if no pod uses them.
	Known []string
	// Taken, Source, Namespace and Selector are the snapshot's.
	Taken, Source, Namespace, Selector string
}

// nodeObservation is what a node observed of its pods, or why it could not be inspected.
type nodeObservation struct {
	Pods *probe.NodePods
	Err  error
}

// ReadObjects adds the objects of a file in the format of `kubectl get -o yaml` or json.
// It ignores kinds that have nothing to do with networks.
func (in *Input) ReadObjects(text []byte) error {
	d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for i := 1; ; i++ {
		var raw json.RawMessage
		err := d.Decode(&raw)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("document %d: %w", i, err)
		}
		if err := in.add(raw); err != nil {
			return fmt.Errorf("document %d: %w", i, err)
		}
	}
}

// add adds an object, or the objects of a list.
func (in *Input) add(raw json.RawMessage) error {
	if text := bytes.TrimSpace(raw); len(text) == 0 || string(text) == "null" {
		return nil
	}
	var head struct {
		APIVersion, Kind string
		Metadata         struct{ Namespace, Name string }
		Items            []json.RawMessage
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return err
	}
	if strings.HasSuffix(head.Kind, "List") && head.Metadata.Name == "" {
		for i, item := range head.Items {
			if err := in.add(item); err != nil {
				return fmt.Errorf("items[%d]: %w", i, err)
			}
		}
		return nil
	}
	group, _, _ := strings.Cut(head.APIVersion, "/")
	if err := in.addObject(head.Kind+"."+group, raw); err != nil {
		return fmt.Errorf("%s %s/%s: %w", head.Kind, head.Metadata.Namespace, head.Metadata.Name, err)
	}
	return nil
}

var errTwice = errors.New("the object is there twice: remove one")

// addObject adds an object of a kind and group.
func (in *Input) addObject(kind string, raw json.RawMessage) error {
	switch kind {
	case "Pod.v1":
		pod, err := decode[corev1.Pod](raw)
		if err != nil {
			return err
		}
		for _, p := range in.Pods {
			if p.Namespace == pod.Namespace && p.Name == pod.Name {
				return errTwice
			}
		}
		in.Pods = append(in.Pods, pod)
		return nil
	case "ReplicaSet.apps", "Job.batch":
		o, err := decode[metav1.PartialObjectMetadata](raw)
		if err != nil {
			return err
		}
		in.parents.Add(o.Kind, o)
		return nil
	case "ResourceClaim.resource.k8s.io":
		return addTo(&in.Claims, raw)
	case "ResourceClaimTemplate.resource.k8s.io":
		return addTo(&in.Templates, raw)
	case "ResourceSlice.resource.k8s.io":
		return addTo(&in.Slices, raw)
	case "DeviceClass.resource.k8s.io":
		return addTo(&in.Classes, raw)
	case "NetworkAttachmentDefinition.k8s.cni.cncf.io":
		return addTo[nadv1.NetworkAttachmentDefinition](&in.Networks, raw)
	}
	return nil
}

func decode[T any](raw json.RawMessage) (*T, error) {
	out := new(T)
	return out, json.Unmarshal(raw, out)
}

func addTo[T resourceapi.ResourceClaim | resourceapi.ResourceClaimTemplate | resourceapi.ResourceSlice | resourceapi.DeviceClass | nadv1.NetworkAttachmentDefinition](to *[]*T, raw json.RawMessage) error {
	o, err := decode[T](raw)
	if err != nil {
		return err
	}
	*to = append(*to, o)
	return nil
}
