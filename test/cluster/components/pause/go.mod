module github.com/nadra-dev/nadra/test/cluster/components/pause

go 1.26.0
