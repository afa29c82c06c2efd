package metrics

import (
	"encoding/json"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type networkKey struct{ namespace, name string }

// Network is the metrics of one network on this node.
type Network struct {
	cniType                 string
	added, notAdded, notYet prometheus.Counter
	deleted, notDeleted     prometheus.Counter
	addTook, delTook        prometheus.Observer
}

// Network returns the metrics of a NAD's network and creates them at the first call. The type
// of the first plugin in conflist is a label.
func (n *Node) Network(namespace, name string, conflist []byte) *Network {
	key := networkKey{namespace, name}
	n.mu.RLock()
	m := n.networks[key]
	n.mu.RUnlock()
	if m != nil {
		return m
	}
	return n.newNetwork(key, cniType(conflist))
}

// newNetwork creates the metrics of a network, unless another goroutine has.
func (n *Node) newNetwork(key networkKey, cniType string) *Network {
	n.mu.Lock()
	defer n.mu.Unlock()
	if m := n.networks[key]; m != nil {
		return m
	}
	of := func(c *prometheus.CounterVec, result string) prometheus.Counter {
		return c.WithLabelValues(key.namespace, key.name, cniType, result)
	}
	m := &Network{
		cniType: cniType,
		added:   of(n.adds, success), notAdded: of(n.adds, failure), notYet: of(n.adds, transient),
		deleted: of(n.dels, success), notDeleted: of(n.dels, failure),
		addTook: n.addTook.WithLabelValues(cniType), delTook: n.delTook.WithLabelValues(cniType),
	}
	n.networks[key] = m
	return m
}

// Added counts an ADD. passing is true if the ADD is retried after the error.
func (m *Network) Added(took time.Duration, err error, passing bool) {
	switch {
	case err == nil:
		m.added.Inc()
		m.addTook.Observe(took.Seconds())
	case passing:
		m.notYet.Inc()
	default:
		m.notAdded.Inc()
	}
}

// Deleted counts a DEL.
func (m *Network) Deleted(took time.Duration, err error) {
	if err != nil {
		m.notDeleted.Inc()
		return
	}
	m.deleted.Inc()
	m.delTook.Observe(took.Seconds())
}

// Keep removes the counters of networks that no longer exist, or whose type has changed.
// known reports whether a network exists, and its type, or "" if the type is not known.
func (n *Node) Keep(known func(namespace, name string) (cniType string, exists bool)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, m := range n.networks {
		now, exists := known(key.namespace, key.name)
		if exists && (now == "" || now == m.cniType) {
			continue
		}
		delete(n.networks, key)
		of := prometheus.Labels{"nad_namespace": key.namespace, "nad": key.name}
		n.adds.DeletePartialMatch(of)
		n.dels.DeletePartialMatch(of)
	}
}

// cniType returns the type of a configuration's first plugin, or "unknown" if there is none.
func cniType(conflist []byte) string {
	var list struct {
		Type    string
		Plugins []struct{ Type string }
	}
	if json.Unmarshal(conflist, &list) == nil {
		if len(list.Plugins) > 0 {
			list.Type = list.Plugins[0].Type
		}
		if list.Type != "" {
			return list.Type
		}
	}
	return "unknown"
}

type execKey struct{ plugin, verb string }

// Executed measures one process of a plugin. verb is the CNI verb.
func (n *Node) Executed(plugin, verb string, took time.Duration) {
	key := execKey{plugin, verb}
	n.mu.RLock()
	o := n.execs[key]
	n.mu.RUnlock()
	if o == nil {
		o = n.execTook.WithLabelValues(plugin, verb)
		n.mu.Lock()
		n.execs[key] = o
		n.mu.Unlock()
	}
	o.Observe(took.Seconds())
}
