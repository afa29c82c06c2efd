package report

import "github.com/nadra-dev/nadra/internal/desk/upgrade"

// The documents of the commands.
var (
	Scan = Formats[*Report]{"the report", []form[*Report]{
		{"table", writeTable},
		{"wide", writeWide},
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
