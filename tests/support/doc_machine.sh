# A machine like this one that is thrown away at its end; it runs in namespaces of its own (mounts, processes, network).
# What is written goes to memory. $1: an empty folder to build it in; $2: the setting; $3: the repository; $4: the
# folder of this Python; $5: a folder with what pages need beside the repository's files; $6: one with compiled kernels.
set -e
room=$1 setting=$2 tree=$3 python=$4 given=$5 kernels=$6
root=$room/root
# What other tests have mounted just now would stay mounted here when they unmount it. They may do so meanwhile.
findmnt --raw --noheadings --output TARGET,SOURCE,FSTYPE | tac | while read -r target source kind; do
    case "$source $kind" in /dev/loop* | *" fuse"*) ;; *) continue ;; esac
    case " $room/ $tree/ $python/ $given/" in *" ${target%/}/"*) ;; *) umount --lazy "$target" 2>/dev/null || ! mountpoint --quiet "$target" ;; esac
done
mount -t tmpfs -o mode=755 tmpfs "$room"
layer() {  # $1 below the new root; what is written there goes to the layer $2
    mkdir -p "$room/$2/upper" "$room/$2/work" "$root$1"
    mount -t overlay -o "lowerdir=$1,upperdir=$room/$2/upper,workdir=$room/$2/work" overlay "$root$1"
}
layer / base
for folder in tmp run mnt home; do mount -t tmpfs -o mode=755,size=20T tmpfs "$root/$folder"; done
chmod 1777 "$root/tmp"
for folder in "$tree" "$python"; do  # it may be below one of those, or on a file system of its own
    [ "$(stat -c %i "$folder")" = "$(stat -c %i "$root$folder" 2>&1)" ] || layer "$folder" "more-$((more += 1))"
done
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --rbind /sys "$root/sys"
if [ -c /dev/fuse ]; then  # without udev it is root's alone, and users mount too
    mknod -m 666 "$room/fuse" c 10 229
    mount --bind "$room/fuse" "$root/dev/fuse"
fi
mkdir -p "$root/srv/given" "$root/srv/depends"
mount --bind "$given" "$root/srv/given"
mkdir -p "$kernels" "$root/srv/kernels"
mount --bind "$kernels" "$root/srv/kernels"  # what is compiled for one page is there for the next
if [ "$setting" = machine ]; then
    # What Forebay needs is lent from the tests' own environment: to install all of it takes a minute for each machine.
    mkdir "$room/lent" "$room/lent-work"
    packages=$(echo "$tree"/.venv/lib/python3*/site-packages)
    mount -t overlay -o "lowerdir=$packages,upperdir=$room/lent,workdir=$room/lent-work" overlay "$root/srv/depends"
    rm -rf "$root"/srv/depends/forebay-* "$root"/srv/depends/*forebay.pth
fi
exec chroot "$root" /bin/bash "$tree/tests/support/doc_setting.sh" "$setting" "$tree" "$python"
