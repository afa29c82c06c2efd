package inspect

import (
	"fmt"
	"io"
	"strings"
)

// textWidth is the column at which details are wrapped.
const textWidth = 120

// below is the indent of details below their step.
const below = 15

// Text writes the chain for people: all steps in short, and the blocker at length.
func (c Chain) Text(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", c.headline())
	names, networks := columns(c.Steps)
	for _, s := range c.Steps {
		state := string(s.State)
		if c.Blocker != nil && s == *c.Blocker {
			state = strings.ToUpper(state)
		}
		lead := fmt.Sprintf("  %-11s  %-*s  %-*s  ", state, names, s.Name, networks, s.on())
		detail := s.Detail
		if c.Blocker != nil && s == *c.Blocker {
			detail = "see below"
		}
		if len(lead) > textWidth/2 && detail != "" { // long names leave no room beside them
			fmt.Fprintf(&b, "%s\n%s%s\n", strings.TrimRight(lead, " "), strings.Repeat(" ", below), wrap(detail, below))
			continue
		}
		fmt.Fprintln(&b, strings.TrimRight(lead+wrap(detail, len(lead)), " "))
	}
	if p := c.Blocker; p != nil {
		fmt.Fprintf(&b, "\n%s\n", p.title())
		for _, line := range [][2]string{
			{"What:", p.Detail}, {"Reason:", string(p.Reason)}, {"Whose job:", string(p.Owner)}, {"What to do:", p.Remedy},
		} {
			if line[1] != "" {
				fmt.Fprintf(&b, "  %-11s  %s\n", line[0], wrap(line[1], 15))
			}
		}
	}
	if len(c.Unread) > 0 {
		var kinds []string
		for _, k := range c.Unread {
			kinds = append(kinds, string(k))
		}
		fmt.Fprintf(&b, "\n%s\n", wrap("You may not read "+strings.Join(kinds, ", ")+": what only they show is not above.", 0))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("writing the chain: %w", err)
	}
	return nil
}

// headline summarizes the chain.
func (c Chain) headline() string {
	summary := map[Verdict]string{
		ChainOK:           "all its networks are attached",
		ChainFailed:       "a step fails",
		ChainWaiting:      "no step has failed, a step waits",
		ChainEnded:        "it has ended, and its networks with it",
		ChainNotConcerned: "nadra does not serve it",
	}[c.Verdict]
	where := ""
	if c.Node != "" {
		where = " on node " + c.Node
	}
	return fmt.Sprintf("Pod %s/%s%s: %s.", c.Namespace, c.Pod, where, summary)
}

// title introduces the step that blocks.
func (s Step) title() string {
	out := "The step that " + map[stepState]string{StepFailed: "fails", StepWaiting: "waits"}[s.State] + ": " + s.Name
	if s.on() != "" {
		out += " of " + s.on()
	}
	return out
}

// on names the object of the step.
func (s Step) on() string {
	if s.Network == "" && s.Claim != "" {
		return fmt.Sprintf("%q", s.Claim)
	}
	return strings.TrimSpace(s.Network + " " + s.Interface)
}

// columns returns the widths that the steps need.
func columns(steps []Step) (names, networks int) {
	for _, s := range steps {
		names, networks = max(names, len(s.Name)), max(networks, len(s.on()))
	}
	return names, networks
}

// wrap breaks text between words, and indents the lines after the first.
func wrap(text string, indent int) string {
	var b strings.Builder
	at := indent
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case at+1+len(word) > textWidth:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = indent
		default:
			b.WriteString(" ")
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	return b.String()
}
