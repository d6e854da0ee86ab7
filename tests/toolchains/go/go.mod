module homeostat.dev/tests/toolchains/go

go 1.26
