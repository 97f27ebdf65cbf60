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
