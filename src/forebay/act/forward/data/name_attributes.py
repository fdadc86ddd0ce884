"""Requests for the attributes of files: status, owner, permissions, times, and extended attributes."""

import errno
import stat

from forebay.act.forward.data import permissions
from forebay.act.forward.data.name_database import PER_NAME, Node
from forebay.act.forward.data.name_lookup import caller_of
from forebay.act.forward.data.name_tree import NameTree, status_of
from forebay.act.forward.data.permissions import READ, WRITE, check_access, system_error
from forebay.act.forward.net import payloads
from forebay.act.forward.net.payloads import AttributeValues, Caller, FileStatus
from forebay.act.forward.net.wire import Message

_MOST_ATTRIBUTE_BYTES = 64 << 10
_USER = b"user."
_HAVE_ATTRIBUTES = (stat.S_IFREG, stat.S_IFDIR)


class AttributeRequests(NameTree):
    """The requests for attributes that `Names` answers."""

    def do_setattr(self, message: Message, request: payloads.AttributesRequest) -> FileStatus:
        caller, now = caller_of(request), self._clock()
        if not message.file:
            node = self._find(request)
        elif request.caller is not None:
            node = self._admit_by_id(message.file, caller)
        else:  # an I/O node's note about a file that a client has open
            node = self._by_id(message.file)
        mode, uid, gid = node.mode, node.uid, node.gid
        if request.uid is not None or request.gid is not None:
            permissions.check_new_owner(caller, node, request.uid, request.gid)
            uid = node.uid if request.uid is None else request.uid
            gid = node.gid if request.gid is None else request.gid
            mode = permissions.without_set_ids(mode)
        if request.mode is not None:
            mode = permissions.changed_mode(caller, node, request.mode)
        if request.clear:
            mode = permissions.without_set_ids(mode)
        self._check_times(caller, node, request)
        if request.caller is not None:  # else an I/O node notes what a client has done that has the file open to write
            self._leases.claim(caller.holder, (node.id,))
        mtime = now if request.mtime_now else request.mtime
        atime = now if request.atime_now else request.atime
        changed = node._replace(mode=mode, uid=uid, gid=gid, ctime=now)
        if mtime is not None:
            changed = changed._replace(mtime=mtime, stamp=request.stamp)
        if atime is not None:
            changed = changed._replace(atime=atime, read_stamp=request.read_stamp)
        values = {name: new for name, new, old in zip(Node._fields, changed, node, strict=True) if new != old}
        self._store.change(lambda: self._store.set(node.id, **values or {"ctime": now}))
        return self._add_size(status_of(changed, leased=self._lease(caller, changed)), changed)

    def _check_times(self, caller: Caller, node: Node, request: payloads.AttributesRequest) -> None:
        if request.clear:  # the times are those of a write
            return
        if request.mtime is not None or request.atime is not None:
            permissions.check_owner(caller, node)
        elif (request.mtime_now or request.atime_now) and not permissions.is_owner(caller, node):
            check_access(caller, node, WRITE)

    def do_getxattr(self, _: Message, request: payloads.AttributeRequest) -> AttributeValues:
        node = self._find(request)
        if request.name is None:
            return AttributeValues(names=self._store.attribute_names(node.id))
        _check_name(request.name)
        check_access(caller_of(request), node, READ)
        value = self._store.attribute(node.id, request.name)
        if value is None:
            raise system_error(errno.ENODATA)
        return AttributeValues(value=value)

    def do_setxattr(self, _: Message, request: payloads.SetAttributeRequest) -> None:
        """Set or remove an extended attribute. Only those of users exist, and only files and folders have them."""
        node, caller, name, value = self._find(request), caller_of(request), request.name, request.value
        _check_name(name)
        if stat.S_IFMT(node.mode) not in _HAVE_ATTRIBUTES:
            raise system_error(errno.EPERM)
        if node.is_folder and node.mode & stat.S_ISVTX:
            permissions.check_owner(caller, node)
        check_access(caller, node, WRITE)
        old = self._store.attribute(node.id, name)
        if request.again and old == value:
            return
        if old is not None and request.create:
            raise system_error(errno.EEXIST)
        if old is None and (request.replace or value is None):
            raise system_error(errno.ENODATA)
        if value is not None:
            others = self._store.attribute_bytes(node.id) - (0 if old is None else len(name) + len(old))
            if others + len(name) + len(value) > _MOST_ATTRIBUTE_BYTES:
                raise system_error(errno.ENOSPC)
        self._leases.claim(caller.holder, (node.id,))
        if value is not None:
            self._store.claim(PER_NAME + 2 * len(value))

        def change() -> None:
            if value is None:
                self._store.remove_attribute(node.id, name)
            else:
                self._store.put_attribute(node.id, name, value)
            self._store.set(node.id, ctime=self._clock())

        self._store.change(change)


def _check_name(name: bytes) -> None:
    if not name.startswith(_USER):
        raise system_error(errno.EOPNOTSUPP)
    if len(name) > 255 or name == _USER:
        raise system_error(errno.EINVAL if name == _USER else errno.ERANGE)
