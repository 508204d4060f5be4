# frozen_string_literal: true

# Writes what a program of bin/package is made of, from Cargo's metadata:
#   ruby packaging/dependencies.rb TARGET VERSION SBOM LICENCES [FILE…]
# SBOM is a bill of materials in CycloneDX 1.5 (JSON), LICENCES the texts of all licences. Each FILE is the licence of a part
# that is no crate.
require 'json'
require 'open3'

# The crates that are linked into a program for one target, and what each of them depends on.
class Dependencies
  # What ends in the program: carat, and the two libraries in it.
  ROOTS = %w[carat carat-probe carat-runtime].freeze

  attr_reader :packages

  def initialize(target)
    command = ['cargo', 'metadata', '--format-version', '1', '--locked', '--filter-platform', target]
    output, status = Open3.capture2(*command)
    abort 'error: cargo metadata failed' unless status.success?
    metadata = JSON.parse(output)
    @nodes = metadata['resolve']['nodes'].to_h { |node| [node['id'], node] }
    by_id = metadata['packages'].to_h { |package| [package['id'], package] }
    roots = by_id.values.select { |package| ROOTS.include?(package['name']) && package['source'].nil? }
    @packages = reached(roots.map { |root| root['id'] }).map { |id| by_id.fetch(id) }
                                                        .sort_by { |one| [one['name'], one['version']] }
  end

  # The ids of the crates that a crate links, without what only builds or tests it.
  def linked(id)
    @nodes.fetch(id)['deps'].select { |dep| dep['dep_kinds'].any? { |kind| kind['kind'].nil? } }.map { |dep| dep['pkg'] }
  end

  private

  def reached(ids)
    found = []
    until ids.empty?
      found |= ids
      ids = ids.flat_map { |id| linked(id) }.uniq - found
    end
    found
  end
end

# The bill of materials.
class Materials
  def initialize(dependencies, version)
    @dependencies = dependencies
    @version = version
  end

  def to_json(*)
    own, others = @dependencies.packages.partition { |package| package['name'] == 'carat' }
    document = { bomFormat: 'CycloneDX', specVersion: '1.5', version: 1,
                 metadata: { component: component(own.first).merge(type: 'application') },
                 components: others.map { |package| component(package) },
                 dependencies: @dependencies.packages.map { |package| edges(package) } }
    "#{JSON.pretty_generate(document)}\n"
  end

  private

  def component(package)
    { type: 'library', 'bom-ref': reference(package['name'], package['version']), name: package['name'],
      version: package['version'], licenses: [{ expression: package['license'].gsub('/', ' OR ') }],
      purl: reference(package['name'], package['version']) }
  end

  def edges(package)
    linked = @dependencies.linked(package['id'])
    references = @dependencies.packages.select { |one| linked.include?(one['id']) }
                              .map { |one| reference(one['name'], one['version']) }
    { ref: reference(package['name'], package['version']), dependsOn: references }
  end

  def reference(name, version)
    "pkg:cargo/#{name}@#{version}"
  end
end

# The texts of all licences, each once, after the names of what is under it.
class LicenceTexts
  NAMES = /\A(licen[sc]e|copying|notice|unlicense)/i.freeze

  def initialize
    @owners = Hash.new { |hash, text| hash[text] = [] }
  end

  def add_package(package)
    folder = File.dirname(package['manifest_path'])
    files = Dir.children(folder).grep(NAMES).sort.map { |name| File.join(folder, name) }
    name = "#{package['name']} #{package['version']} (#{package['license']})"
    files.select { |file| File.file?(file) }.each { |file| add(name, file) }
    @owners["No text of a licence is part of these crates.\n"] << name if files.empty?
  end

  def add(name, file)
    @owners[File.read(file, encoding: 'UTF-8').scrub.gsub("\r\n", "\n").strip.concat("\n")] |= [name]
  end

  def to_s
    parts = @owners.sort_by { |_, names| names }.map { |text, names| "#{names.join("\n")}\n\n#{text}" }
    parts.join("\n#{'-' * 80}\n\n")
  end
end

target, version, bill, licences, *others = ARGV
dependencies = Dependencies.new(target)
File.write(bill, Materials.new(dependencies, version).to_json)
texts = LicenceTexts.new
dependencies.packages.reject { |package| package['source'].nil? }.each { |package| texts.add_package(package) }
others.each { |file| texts.add(file.split('/').last(3).join('/'), file) }
File.write(licences, texts.to_s)
