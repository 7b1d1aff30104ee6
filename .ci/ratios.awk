# Makes a table of the benchmarks that report a ratio.
/^pkg: / { pkg = $2; sub(/^.*\/bunkroom\//, "", pkg) }
/^Benchmark/ {
	ratio = ""; ours = "-"
	for (i = 3; i < NF; i += 2) {
		if ($(i + 1) == "ratio") ratio = $i
		if ($(i + 1) == "ours-ns/op") ours = sprintf("%.3f ms", $i / 1e6)
	}
	if (ratio == "") next
	name = $1
	sub(/^Benchmark/, "", name); sub(/-[0-9]+$/, "", name); gsub(/_/, " ", name)
	if (!header++) printf "| %-18s | %-52s | %12s | %6s |\n|%s|%s|%s|%s|\n", "package", "benchmark", "ours", "ratio", "--------------------", "------------------------------------------------------", "-------------:", "-------:"
	printf "| %-18s | %-52s | %12s | %6.2f |\n", pkg, name, ours, ratio
}
