-- The role that reads documents for users: policies show it the rows that the settings of its connection name.
-- `app.partition` is the number of the scope, `app.names` a JSON object of what documents list that the user may see; a
-- missing setting shows nothing. The owner of the tables, as which everything else works, reads all.

do $$ begin
    if not exists (select from pg_roles where rolname = 'retrieval_viewer') then
        create role retrieval_viewer nologin;
    end if;
    if not pg_has_role(current_user, 'retrieval_viewer', 'member') then
        grant retrieval_viewer to current_user;
    end if;
exception when duplicate_object or unique_violation then
    grant retrieval_viewer to current_user;
end $$;

grant usage on schema public to retrieval_viewer;
grant select on documents, chunks, vectors, run_documents, connection_documents, departures, embeddings, postings, partitions
    to retrieval_viewer;
grant select (id, organization_id, deleted_at) on namespaces to retrieval_viewer;

create policy visible on documents for select to retrieval_viewer using (
    partition_id = (select nullif(current_setting('app.partition', true), '')::int)
    and (select nullif(current_setting('app.names', true), '')::jsonb) ?| allowed
    and not (select nullif(current_setting('app.names', true), '')::jsonb) ?| denied
);
-- `offset 0` keeps the planner from reading all documents first.
create policy visible on chunks for select to retrieval_viewer using (
    partition_id = (select nullif(current_setting('app.partition', true), '')::int)
    and exists (select from documents d where d.id = document_id offset 0)
);
create policy visible on vectors for select to retrieval_viewer using (
    partition_id = (select nullif(current_setting('app.partition', true), '')::int)
    and exists (select from documents d where d.id = document_id offset 0)
);
create policy visible on run_documents for select to retrieval_viewer using (
    exists (select from documents d where d.id = document_id offset 0)
);
create policy visible on connection_documents for select to retrieval_viewer using (
    exists (select from documents d where d.id = document_id offset 0)
);
create policy visible on departures for select to retrieval_viewer using (
    exists (select from documents d where d.id = document_id offset 0)
);
create policy visible on embeddings for select to retrieval_viewer using (
    partition_id = (select nullif(current_setting('app.partition', true), '')::int)
);
create policy visible on postings for select to retrieval_viewer using (
    partition_id = (select nullif(current_setting('app.partition', true), '')::int)
);

alter table documents enable row level security;
alter table chunks enable row level security;
alter table vectors enable row level security;
alter table run_documents enable row level security;
alter table connection_documents enable row level security;
alter table departures enable row level security;
alter table embeddings enable row level security;
alter table postings enable row level security;

-- Documents as users see them: of one with a visible version that version's state, whatever became of later ones.
create schema viewer;
create view viewer.documents with (security_invoker) as
select d.id, d.partition_id, d.source, d.external_id, d.document_type, d.name, d.metadata, d.changes, d.metadata_at,
       d.connection_id, d.archive_id, d.active_generation, d.latest_generation, d.fingerprint, d.raw_key, d.parsed_key,
       d.properties, d.embedding, d.accepted_bytes, d.keyword_language, d.access, d.access_limit,
       d.access_after, d.inherits_access, d.allowed, d.denied, d.withholds_file, d.access_reason, d.hidden,
       d.created_at, d.synced_at, d.deleted_at,
       case when d.active_generation > 0 then 'SUCCESS' else d.status end as status,
       case when d.active_generation = 0 and not exists (
           select from public.run_documents m
           where m.job_run_id = d.job_run_id and m.document_id = d.id and m.access is not null
       ) then d.error end as error,
       case when d.active_generation > 0 and d.status <> 'SUCCESS' then coalesce((
           select r.job_id from public.run_documents m join public.job_runs r on r.id = m.job_run_id
           where m.document_id = d.id and m.generation = d.latest_generation limit 1
       ), d.job_id) else d.job_id end as job_id,
       case when d.active_generation > 0 and d.status <> 'SUCCESS' then coalesce((
           select m.job_run_id from public.run_documents m
           where m.document_id = d.id and m.generation = d.latest_generation limit 1
       ), d.job_run_id) else d.job_run_id end as job_run_id,
       case when d.active_generation > 0
            then greatest(d.created_at, d.synced_at, (d.changes -> -1 ->> 'at')::timestamptz)
            else d.updated_at end as updated_at
from public.documents d;
grant usage on schema viewer to retrieval_viewer;
grant select on viewer.documents to retrieval_viewer;
grant select (id, job_id) on job_runs to retrieval_viewer;
