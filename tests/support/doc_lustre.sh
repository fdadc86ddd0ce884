# A Lustre that is not there, below this folder: `lfs` of fakes/, what it remembers, and the file that describes it.
export PATH=$SOURCES/tests/support/fakes:$PATH FOREBAY_FAKE_STATE=$PWD/lustre.json
cat > lustre.json <<END
{"name": "scratch", "mount": "$PWD", "default": {"count": 1, "size": 1048576, "start": -1}, "layouts": {}, "log": [],
 "targets": [{"index": 0, "total": 4000000000000, "free": 2000000000000}]}
END
printf '[filesystem]\nkind = "lustre"\nname = "scratch"\nmount = "%s"\n' "$PWD" > scratch.toml
