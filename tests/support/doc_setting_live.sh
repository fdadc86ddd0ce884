# Of doc_setting.sh: a service where one usually is, and the agents of two storage nodes.
install -D -m 644 examples/serve.toml /etc/forebay/serve.toml
unit() {  # $1: its name; $2: forebay's words
    printf '[Service]\nExecStart=%s\nRuntimeDirectory=forebay\nStateDirectory=forebay\n' \
        "$tree/.venv/bin/forebay $2" > "/etc/systemd/system/$1.service"
}
disk() {  # $1: node, $2: name, $3: tier, $4: capacity
    mkdir -p -m 711 "/mnt/$1/$2"
    cat >> "/etc/forebay/$1.toml" <<EOF
[[disk]]
name = "$2"
kind = "directory"
root = "/mnt/$1/$2"
capacity = "$4"
read_bandwidth = "6 GB/s"
write_bandwidth = "4 GB/s"
fields = { tier = "$3" }
EOF
}
unit forebay-serve "serve --config /etc/forebay/serve.toml"
for node in storage1 storage2; do
    cat > /etc/forebay/$node.toml <<EOF
[agent]
node = "$node"
service = "unix:/run/forebay/service.sock"
folder = "/var/lib/forebay/$node"
heartbeat = "1 s"
EOF
    unit forebay-agent@$node "agent /etc/forebay/$node.toml"
    disk $node nvme0 nvme "6.4 TB"
done
disk storage1 ssd0 ssd "3.2 TB"
ln -s "$tree/.venv" /opt/forebay
[ "$setting" = slurm ] || { mkdir /etc/slurm && echo ClusterName=hpc > /etc/slurm/slurm.conf; }
systemctl start forebay-serve forebay-agent@storage1 forebay-agent@storage2
until [ "$(forebay storage nodes --json | grep -c '"storage[12]"')" -ge 2 ]; do sleep 0.1; done
