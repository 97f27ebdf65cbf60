-- Functions and triggers of 0.2.0.

-- Documents of each partition by source and status, and documents and bytes of organizations that have a quota. Each
-- statement adds rows of its own: no two wait for one. A partition that is deleted takes its counts with it.

create function count_documents() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        insert into document_counts (partition_id, source, status, documents)
        select partition_id, source, status, count(*) from new_rows where deleted_at is null group by 1, 2, 3;
    elsif tg_op = 'DELETE' then
        insert into document_counts (partition_id, source, status, documents)
        select d.partition_id, d.source, d.status, -count(*) from old_rows d join partitions p on p.id = d.partition_id
        where d.deleted_at is null group by 1, 2, 3;
    else
        insert into document_counts (partition_id, source, status, documents)
        select partition_id, source, status, sum(documents)
        from (select partition_id, source, status, 1 as documents from new_rows where deleted_at is null
              union all
              select partition_id, source, status, -1 from old_rows where deleted_at is null) d
        group by 1, 2, 3 having sum(documents) <> 0;
    end if;
    if not exists (select from organizations where counted) then
        return null;
    end if;
    if tg_op = 'INSERT' then
        insert into quota_changes (organization_id, tenant, documents, stored_bytes)
        select n.organization_id, p.tenant, count(*), sum(document_size(d.properties, d.accepted_bytes))
        from new_rows d join partitions p on p.id = d.partition_id join namespaces n on n.id = p.namespace_id
        join organizations o on o.id = n.organization_id and o.counted
        where d.deleted_at is null group by 1, 2;
    elsif tg_op = 'DELETE' then
        insert into quota_changes (organization_id, tenant, documents, stored_bytes)
        select n.organization_id, p.tenant, -count(*), -sum(document_size(d.properties, d.accepted_bytes))
        from old_rows d join partitions p on p.id = d.partition_id join namespaces n on n.id = p.namespace_id
        join organizations o on o.id = n.organization_id and o.counted
        where d.deleted_at is null group by 1, 2;
    else
        insert into quota_changes (organization_id, tenant, documents, stored_bytes)
        select n.organization_id, p.tenant, sum(d.documents), sum(d.bytes)
        from (select partition_id, 1 as documents, document_size(properties, accepted_bytes) as bytes
              from new_rows where deleted_at is null
              union all
              select partition_id, -1, -document_size(properties, accepted_bytes)
              from old_rows where deleted_at is null) d
        join partitions p on p.id = d.partition_id join namespaces n on n.id = p.namespace_id
        join organizations o on o.id = n.organization_id and o.counted
        group by 1, 2 having sum(d.documents) <> 0 or sum(d.bytes) <> 0;
    end if;
    return null;
end $$;

create trigger count_delete after delete on documents
    referencing old table as old_rows for each statement execute function count_documents();
create trigger count_insert after insert on documents
    referencing new table as new_rows for each statement execute function count_documents();
create trigger count_update after update on documents
    referencing old table as old_rows new table as new_rows for each statement execute function count_documents();

-- Events for webhooks and Prefect, written in the transaction that changes a status, and only where somebody listens. That
-- a job run is COMPLETED is noted when its transaction ends, after all events of its documents.

create function webhooks_hear(of_partition integer, said text) returns boolean language sql stable as $$
    select exists (
        select from partitions p join namespaces n on n.id = p.namespace_id and n.deleted_at is null
        join webhooks h on h.organization_id = n.organization_id and h.status = 'ACTIVE'
            and (h.namespace_id is null or h.namespace_id = n.id) and (h.tenant is null or h.tenant = p.tenant)
            and h.events && array['*', said]
        where p.id = of_partition
    ) or (said not like 'DOCUMENTS%' and exists (select from event_feeds))
$$;

create function note_documents() returns trigger language plpgsql as $$
begin
    if not exists (select from webhooks where status = 'ACTIVE') then
        return null;
    end if;
    if tg_op = 'INSERT' then
        insert into webhook_outbox (partition_id, type, lane, data)
        select t.partition_id, t.type, t.job_run_id, jsonb_build_object(
            'ingestJobRunId', t.job_run_id, 'documents', jsonb_agg(jsonb_build_object(
                'id', t.id, 'externalId', t.external_id, 'status', t.status, 'error', t.error) order by t.place))
        from (select d.*, 'DOCUMENTS_QUEUED_FOR_INGESTION' as type,
                     row_number() over (partition by d.partition_id, d.job_run_id order by d.id) as place
              from new_rows d where d.status = 'QUEUED' and d.deleted_at is null) t
        where webhooks_hear(t.partition_id, t.type)
        group by t.partition_id, t.type, t.job_run_id, (t.place - 1) / 100
        order by t.partition_id, t.job_run_id, (t.place - 1) / 100;
    else
        insert into webhook_outbox (partition_id, type, lane, data)
        select t.partition_id, t.type, t.run, jsonb_strip_nulls(jsonb_build_object('ingestJobRunId', t.run))
            || jsonb_build_object('documents', jsonb_agg(jsonb_build_object(
                'id', t.id, 'externalId', t.external_id, 'status', t.shown, 'error', t.error) order by t.place))
        from (
            select c.*, row_number() over (partition by c.partition_id, c.type, c.run order by c.id) as place
            from (
                select d.id, d.partition_id, d.external_id, s.rank, s.type,
                       case when d.deleted_at is null then d.job_run_id end as run,
                       coalesce(s.shown, d.status) as shown, case when d.deleted_at is null then d.error end as error
                from new_rows d join old_rows o on o.id = d.id and o.deleted_at is null
                cross join lateral (
                    select 1 as rank, 'DOCUMENTS_QUEUED_FOR_DELETION' as type, 'QUEUED_FOR_DELETION' as shown
                    where d.deleted_at is not null
                    union all
                    select 2, 'DOCUMENTS_DELETED', 'DELETED' where d.deleted_at is not null
                    union all
                    select 0, case d.status
                        when 'QUEUED' then case when d.active_generation > 0 then 'DOCUMENTS_QUEUED_FOR_UPDATE'
                                                else 'DOCUMENTS_QUEUED_FOR_INGESTION' end
                        when 'QUEUED_FOR_RESYNC' then 'DOCUMENTS_QUEUED_FOR_RESYNC'
                        when 'PROCESSING' then 'DOCUMENTS_PROCESSING'
                        when 'SUCCESS' then 'DOCUMENTS_READY'
                        when 'FAILED' then 'DOCUMENTS_ERROR' end, null
                    where d.deleted_at is null and (
                        d.status <> o.status
                        or (d.status in ('QUEUED', 'QUEUED_FOR_RESYNC') and d.job_run_id <> o.job_run_id))
                ) s
                where s.type is not null
            ) c
            where webhooks_hear(c.partition_id, c.type)
        ) t
        group by t.partition_id, t.rank, t.type, t.run, (t.place - 1) / 100
        order by t.partition_id, t.rank, t.type, t.run, (t.place - 1) / 100;
    end if;
    return null;
end $$;

create trigger note_insert after insert on documents
    referencing new table as new_rows for each statement execute function note_documents();
create trigger note_update after update on documents
    referencing old table as old_rows new table as new_rows for each statement execute function note_documents();

create function note_job_run() returns trigger language plpgsql as $$
begin
    if (exists (select from webhooks where status = 'ACTIVE') or exists (select from event_feeds))
            and webhooks_hear(new.partition_id, 'INGEST_JOB_RUN_' || new.status) then
        insert into webhook_outbox (partition_id, type, lane, data)
        values (new.partition_id, 'INGEST_JOB_RUN_' || new.status, new.id,
                jsonb_build_object('ingestJobRunId', new.id, 'status', new.status));
    end if;
    return null;
end $$;

create constraint trigger note_end after update of status on job_runs
    deferrable initially deferred for each row when (old.status <> new.status and new.status = 'COMPLETED')
    execute function note_job_run();
create trigger note_insert after insert on job_runs
    for each row when (new.status = 'QUEUED') execute function note_job_run();
create trigger note_update after update of status on job_runs
    for each row when (old.status <> new.status and new.status <> 'COMPLETED') execute function note_job_run();

create function note_connection() returns trigger language plpgsql as $$
begin
    if (exists (select from webhooks where status = 'ACTIVE') or exists (select from event_feeds))
            and webhooks_hear(new.partition_id, 'CONNECTION_' || new.status) then
        insert into webhook_outbox (partition_id, type, lane, data)
        values (new.partition_id, 'CONNECTION_' || new.status, new.id,
                jsonb_build_object('connectionId', new.id, 'connector', new.connector, 'status', new.status,
                                   'statusReason', new.status_reason));
    end if;
    return null;
end $$;

create trigger note_update after update of status on connections
    for each row when (old.status <> new.status and new.status in ('ACTIVE', 'FAILED'))
    execute function note_connection();

create function note_removals() returns trigger language plpgsql as $$
begin
    if exists (select from webhooks where status = 'ACTIVE') or exists (select from event_feeds) then
        insert into webhook_outbox (partition_id, type, lane, data)
        select c.partition_id, 'CONNECTION_REMOVALS_WAITING', c.id,
               jsonb_build_object('connectionId', c.id, 'connector', c.connector, 'status', c.status,
                                  'removals', count(*))
        from new_rows d join old_rows o using (document_id, connection_id)
        join connections c on c.id = d.connection_id
        where d.held and not o.held and webhooks_hear(c.partition_id, 'CONNECTION_REMOVALS_WAITING')
        group by c.id;
    end if;
    return null;
end $$;

create trigger note_update after update on departures
    referencing old table as old_rows new table as new_rows for each statement execute function note_removals();

-- Access: who may read a document by its own list and by those of versions that are being ingested.

-- Names of both lists; a user with an address is in the group of its domain.
create function intersect_access(a jsonb, b jsonb) returns jsonb language sql immutable parallel safe as $$
    select case when a is null then b when b is null or a = b then a else jsonb_build_object(
        'users', coalesce((
            select jsonb_agg(name order by place) from (
                select name, min(place) as place from (
                    select name, place from jsonb_array_elements_text(b -> 'users') with ordinality s (name, place)
                    where (a ->> 'public')::boolean or jsonb_exists(a -> 'users', name)
                        or jsonb_exists(a -> 'groups', 'domain:' || substring(name from '@([^@]+)$'))
                    union all
                    select name, 10000 + place from jsonb_array_elements_text(a -> 'users') with ordinality o (name, place)
                    where (b ->> 'public')::boolean
                        or jsonb_exists(b -> 'groups', 'domain:' || substring(name from '@([^@]+)$'))
                ) named group by name
            ) listed), '[]'),
        'groups', coalesce((
            select jsonb_agg(name order by place) from (
                select name, min(place) as place from (
                    select name, place from jsonb_array_elements_text(b -> 'groups') with ordinality s (name, place)
                    where (a ->> 'public')::boolean or jsonb_exists(a -> 'groups', name)
                    union all
                    select name, 10000 + place from jsonb_array_elements_text(a -> 'groups') with ordinality o (name, place)
                    where (b ->> 'public')::boolean
                ) named group by name
            ) listed), '[]'),
        'denied', jsonb_build_object(
            'users', coalesce((
                select jsonb_agg(name order by place) from (
                    select name, min(place) as place from (
                        select name, place
                        from jsonb_array_elements_text(b -> 'denied' -> 'users') with ordinality s (name, place)
                        union all
                        select name, 10000 + place
                        from jsonb_array_elements_text(a -> 'denied' -> 'users') with ordinality o (name, place)
                    ) named group by name
                ) listed), '[]'),
            'groups', coalesce((
                select jsonb_agg(name order by place) from (
                    select name, min(place) as place from (
                        select name, place
                        from jsonb_array_elements_text(b -> 'denied' -> 'groups') with ordinality s (name, place)
                        union all
                        select name, 10000 + place
                        from jsonb_array_elements_text(a -> 'denied' -> 'groups') with ordinality o (name, place)
                    ) named group by name
                ) listed), '[]')),
        'public', (a ->> 'public')::boolean and (b ->> 'public')::boolean) end
$$;

create function access_allowed(list jsonb) returns text[] language sql immutable parallel safe as $$
    select case when list is null then '{@}'::text[] else array(
        select 'u:' || name from jsonb_array_elements_text(list -> 'users') name
        union all select 'g:' || name from jsonb_array_elements_text(list -> 'groups') name
        union all select '*' where (list ->> 'public')::boolean
    ) end
$$;

create function access_denied(list jsonb) returns text[] language sql immutable parallel safe as $$
    select array(
        select 'u:' || name from jsonb_array_elements_text(list -> 'denied' -> 'users') name
        union all select 'g:' || name from jsonb_array_elements_text(list -> 'denied' -> 'groups') name
    )
$$;

create function list_readers() returns trigger language plpgsql as $$
declare held jsonb := intersect_access(new.access, new.access_limit);
begin
    new.allowed := access_allowed(held);
    new.denied := access_denied(held);
    return new;
end $$;

create trigger list_readers before insert or update of access, access_limit on documents
    for each row execute function list_readers();

create function access_limit_of(document text) returns jsonb language plpgsql stable as $$
declare list jsonb; held jsonb;
begin
    for list in
        select m.access from run_documents m
        where m.document_id = document and m.access is not null and m.status in ('QUEUED', 'PROCESSING')
        union all
        select a.access_limit from documents d join documents a on a.id = d.archive_id
        where d.id = document and d.inherits_access and a.access_limit is not null
    loop
        held := intersect_access(held, list);
    end loop;
    return held;
end $$;

create function limit_access(ids text[]) returns void language plpgsql as $$
declare members text[];
begin
    perform from documents where id = any(ids) order by id for no key update;
    with limited as (
        update documents d set access_limit = access_limit_of(d.id)
        where d.id = any(ids) and d.access_limit is distinct from access_limit_of(d.id) returning d.id
    )
    select array_agg(m.id) into members from limited l
    join documents m on m.archive_id = l.id and m.inherits_access and m.deleted_at is null;
    if members is not null then
        perform limit_access(members);
    end if;
end $$;

create function limit_versioned() returns trigger language plpgsql as $$
begin
    perform limit_access(array[coalesce(new.document_id, old.document_id)]);
    return null;
end $$;

create trigger limit_former_version after delete on run_documents
    for each row when (old.access is not null) execute function limit_versioned();
create trigger limit_new_version after insert on run_documents
    for each row when (new.access is not null) execute function limit_versioned();
create trigger limit_version after update of access, status on run_documents
    for each row when (old.access is distinct from new.access
                       or new.access is not null and old.status is distinct from new.status)
    execute function limit_versioned();

create function limit_packed() returns trigger language plpgsql as $$
begin
    perform limit_access(array[new.id]);
    return null;
end $$;

create trigger limit_packed after insert on documents
    for each row when (new.inherits_access) execute function limit_packed();
create trigger limit_packed_elsewhere after update of archive_id, inherits_access on documents
    for each row when (old.archive_id is distinct from new.archive_id or old.inherits_access <> new.inherits_access)
    execute function limit_packed();
