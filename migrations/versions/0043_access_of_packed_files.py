"""What is packed into a document keeps an access of its own until its new version is shown.

`narrowed_access` is what is kept of an old and a new access until then; the trigger uses it, too: where an archive's
access waits for a version, its members' own are narrowed by what comes, and no more replaced by the archive's. That of an
archive always waits (`waits`), for its members may have to.
"""

from alembic import op

revision = "0043"
down_revision = "0042"

COMMON = """coalesce((
        select jsonb_agg(name order by place) from (
            select name, min(place) as place from (
                select name, place from jsonb_array_elements_text(said -> 'KEY') with ordinality s (name, place)
                where (old ->> 'public')::boolean or jsonb_exists(old -> 'KEY', name) OF_OLD
                union all
                select name, 10000 + place from jsonb_array_elements_text(old -> 'KEY') with ordinality o (name, place)
                where (said ->> 'public')::boolean OF_SAID
            ) named group by name
        ) listed), '[]')"""
EITHER = """coalesce((
        select jsonb_agg(name order by place) from (
            select name, min(place) as place from (
                select name, place
                from jsonb_array_elements_text(said -> 'denied' -> 'KEY') with ordinality s (name, place)
                union all
                select name, 10000 + place
                from jsonb_array_elements_text(old -> 'denied' -> 'KEY') with ordinality o (name, place)
            ) named group by name
        ) listed), '[]')"""


def common(key: str) -> str:
    """Names of both lists. A user with an address is in the group of its domain, whatever else changes."""
    found = COMMON.replace("KEY", key)
    for side in ("OLD", "SAID"):
        within = f"or jsonb_exists({side.lower()} -> 'groups', 'domain:' || substring(name from '@([^@]+)$'))"
        found = found.replace(f"OF_{side}", within if key == "users" else "")
    return found


NARROWED = f"""
    create or replace function narrowed_access(old jsonb, said jsonb, since bigint, waits boolean) returns jsonb
    language sql immutable as $$
        select case when kept = said and not waits then said
                    else kept || jsonb_build_object('next', jsonb_build_object('access', said, 'from', since)) end
        from (select case when old is null then said else jsonb_build_object(
            'users', {common("users")},
            'groups', {common("groups")},
            'denied', jsonb_build_object(
                'users', {EITHER.replace("KEY", "users")}, 'groups', {EITHER.replace("KEY", "groups")}),
            'public', (old ->> 'public')::boolean and (said ->> 'public')::boolean) end as kept) narrowed
    $$
"""
FOLLOW = """
    create or replace function list_principals() returns trigger language plpgsql as $$
    begin
        if tg_op = 'UPDATE' then
            delete from document_principals where document_id = new.id;
            FOLLOWING
        end if;
        if new.access is not null then
            insert into document_principals (document_id, denied, principal, partition_id)
            select distinct new.id, named.denied, named.principal, new.partition_id from (
                select false as denied, 'u:' || value as principal
                from jsonb_array_elements_text(new.access -> 'users') value
                union all
                select false, 'g:' || value from jsonb_array_elements_text(new.access -> 'groups') value
                union all
                select true, 'u:' || value from jsonb_array_elements_text(new.access -> 'denied' -> 'users') value
                union all
                select true, 'g:' || value from jsonb_array_elements_text(new.access -> 'denied' -> 'groups') value
                union all
                select false, '*' where (new.access ->> 'public')::boolean
            ) named;
        end if;
        return null;
    end $$
"""
COPIED = """
            update documents set access = new.access, access_at = new.access_at, updated_at = new.updated_at
            where archive_id = new.id and deleted_at is null and access is distinct from new.access;
"""
OWN = """
            update documents d set access = f.access, access_at = new.access_at, updated_at = new.updated_at
            from (
                select id, case
                    when not coalesce(new.access ? 'next', false) then new.access
                    when new.access_at is distinct from old.access_at then narrowed_access(
                        access, new.access #> '{next,access}', (new.access #>> '{next,from}')::bigint,
                        exists (select from documents m where m.archive_id = o.id and m.deleted_at is null))
                    when access ? 'next' then jsonb_set(access, '{next,from}', new.access #> '{next,from}')
                    else access end as access
                from documents o where archive_id = new.id and deleted_at is null
            ) f where d.id = f.id and d.access is distinct from f.access;
"""
"""What an archive waits for is said anew (`access_at`), or only waited for longer."""


def upgrade() -> None:
    op.execute(NARROWED)
    op.execute(FOLLOW.replace("FOLLOWING", OWN))


def downgrade() -> None:
    op.execute(FOLLOW.replace("FOLLOWING", COPIED))
    op.execute("drop function narrowed_access(jsonb, jsonb, bigint, boolean)")
