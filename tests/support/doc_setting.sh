# The rest of doc_machine.sh, inside: users, files and services of a setting. It ends as the shell of root on 0 and 1,
# and of the user ada on 3 and 4. $1: the setting; $2: the repository; $3: the folder of this Python.
set -e
setting=$1 tree=$2 python=$3 kernels=/srv/kernels-of-users
usual=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH=$tree/.venv/bin:$usual HOME=/root LANG=C.UTF-8 LC_ALL=C.UTF-8 TERM=dumb TZ=UTC SOURCES=$tree NUMBA_CACHE_DIR=/srv/kernels
export PIP_NO_INDEX=1 PIP_FIND_LINKS=/srv/given PIP_CONFIG_FILE=/dev/null PIP_NO_CACHE_DIR=1
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PIP_NO_BUILD_ISOLATION=0  # 0: not isolated
"$tree/.venv/bin/python" "$tree/tests/support/doc_loopback.py"
rm -rf /etc/forebay /var/lib/forebay* /opt/forebay* /etc/systemd/system/forebay* /etc/slurm /root/.local/share/forebay
for folder in "$tree" "$python"; do  # which are root's own, perhaps
    while [ "$folder" != / ]; do chmod a+x "$folder"; folder=$(dirname "$folder"); done
done
useradd --create-home --shell /bin/bash ada
mkdir -p /etc/systemd/system
(echo "#!$tree/.venv/bin/python" && cat "$tree/tests/support/doc_systemctl.py") > /usr/local/sbin/systemctl
chmod 755 /usr/local/sbin/systemctl
cd /home/ada
cp -rL "$tree/examples" /srv/given/marenostrum4.csv /srv/given/logs .
mkdir docs && cp -r "$tree/docs/plugin" docs
chown -R ada: .
cp -r /srv/kernels "$kernels"  # where users, who must not write to root's, find what is compiled
chmod -R a+rwX "$kernels"

case $setting in
plain) export HOME=/home/ada ;;
live | slurm) . "$tree/tests/support/doc_setting_live.sh" ;;
machine) export PATH=/usr/local/sbin:$python/bin:$usual PYTHONPATH=/srv/depends ;;  # our systemctl before that of /usr/bin
*) echo "no setting $setting" && exit 1 ;;
esac
[ "$setting" != slurm ] || PYTHONPATH=$tree/tests "$tree/.venv/bin/python" -m support.doc_slurm
echo "ready $(readlink /proc/self/ns/pid) $(stat -c %Hd:%Ld / /tmp /mnt | xargs)"  # by which its remains are known
set +e
shell="/bin/bash --noprofile --norc"
[ "$setting" = plain ] || HOME=/home/ada USER=ada NUMBA_CACHE_DIR=$kernels setpriv --reuid ada --regid ada --init-groups $shell <&3 >&4 2>&1 &
exec $shell 3<&- 4>&-
