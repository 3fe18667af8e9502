package main

import (
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
)

func init() {
	programs["etcd"] = func() *cobra.Command { return nil }
	run["etcd"] = func(*cobra.Command) int {
		etcdmain.Main(append([]string{"etcd"}, os.Args[1:]...))
		return 0
	}
}
