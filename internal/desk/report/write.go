package report

import (
	"github.com/nadra-dev/nadra/internal/desk/upgrade"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// Codes lists the rules of findings, and then the reasons.
var Codes = drawn(func(s *sheet, rules []translate.Rule) {
	table(s, "CODE\tSEVERITY\tMEANING", rules, func(r translate.Rule) []string { return []string{string(r.Code), string(r.Severity), r.Title} })
	table(s, "CODE\tSTAGE\tMEANING", reason.All(), func(e reason.Entry) []string { return []string{string(e.Code), string(e.Stage), e.Meaning} })
})

// The documents of the commands.
var (
	Scan = Formats[*Report]{"the report", []form[*Report]{
		{"table", drawn(writeTable)},
		{"wide", drawn(writeWide)},
		{"json", writeJSON[*Report]},
		{"yaml", writeYAML[*Report]},
		{"html", writeHTML},
		{"sarif", writeSARIF},
	}}
	Doctor     = tabular("the checks", writeDoctorTable)
	Verify     = tabular("the differences", writeVerifyTable)
	Canary     = tabular("the canaries' report", writeCanaryTable)
	CanaryPlan = tabular("the plan", writeCanaryPlanTable)
	Cleanup    = tabular("the report", writeCleanupTable)
	Upgrade    = tabular("the status", writeUpgradeTable)
	// UpgradePlan begins with the format that people edit.
	UpgradePlan = Formats[*upgrade.Plan]{"the plan", []form[*upgrade.Plan]{
		{"yaml", writeYAML[*upgrade.Plan]}, {"json", writeJSON[*upgrade.Plan]}, {"markdown", writeUpgradePage},
	}}
)
