# frozen_string_literal: true

require 'active_support/testing/time_helpers'

# Fills an empty Redmine with 10 projects of 40 issues each, their comments and a wiki page, always the same ones.
#
# User N is a developer of every project; the load logs in as that user and reads project N.
class Seed
  include ActiveSupport::Testing::TimeHelpers

  PROJECTS = 10
  ISSUES = 400
  MOST_COMMENTS = 4
  PASSWORD = 'carat-redmine'
  # A fixed date, because Redmine sorts by date and /activity shows some days.
  START = Time.utc(2025, 1, 6, 8)
  SPACING = 2.hours
  WORDS = %w[account archive attachment backup branch browser calendar category certificate column comment contract
             customer date delivery deployment directory document editor encoding export field filter folder
             form group header import index invoice label language layout letter library link list login
             manual member message migration module month network number order package page password payment
             picture printer priority process profile project query queue quota record release report request
             response role schedule screen search server session setting signature stock storage subject summary
             supplier table task template terminal ticket timeout token tracker training transfer translation
             upload user version warehouse week window workflow].freeze

  def initialize
    @random = Random.new(17)
    # Comments of the seed are not mailed.
    ActiveJob::Base.queue_adapter = :test
  end

  def run
    @users = Array.new(PROJECTS) { |place| create_user(place + 1) }
    @projects = Array.new(PROJECTS) { |place| at(0) { create_project(place + 1) } }
    @trackers = Tracker.sorted.to_a
    @statuses = IssueStatus.sorted.to_a
    @priorities = IssuePriority.active.to_a
    ISSUES.times { |place| create_issue(place) }
    puts "#{Project.count} projects, #{Issue.count} issues, #{Journal.count} comments"
  end

  private

  def at(hours, &block)
    travel_to(START + (hours * SPACING), &block)
  end

  def create_user(number)
    user = User.new(firstname: 'User', lastname: number.to_s, mail: "user#{number}@example.net", language: 'en')
    user.login = "user#{number}"
    user.password = user.password_confirmation = PASSWORD
    user.status = Principal::STATUS_ACTIVE
    user.save!
    user
  end

  def create_project(number)
    project = Project.new(name: "Project #{number}", description: paragraphs(2), is_public: true)
    project.identifier = "project-#{number}"
    project.enabled_module_names = %w[issue_tracking time_tracking news documents wiki calendar gantt]
    project.trackers = Tracker.all
    project.save!
    developer = Role.givable.find_by!(name: 'Developer')
    @users.each { |user| Member.create!(project: project, principal: user, roles: [developer]) }
    create_wiki(project.reload)
    project
  end

  def create_wiki(project)
    page = WikiPage.new(wiki: project.wiki, title: project.wiki.start_page)
    content = WikiContent.new(page: page, text: "h1. #{project.name}\n\n#{paragraphs(12)}", author: @users.first, comments: '')
    page.save_with_content(content) or raise "no wiki page: #{page.errors.full_messages.join(', ')}"
  end

  # The issues of a project are spread over the whole time.
  def create_issue(place)
    issue = at(place) do
      Issue.create!(project: @projects[place % PROJECTS], tracker: pick(@trackers), author: pick(@users),
                    status: pick(@statuses), priority: pick(@priorities), assigned_to: pick(@users),
                    subject: words(6).capitalize, description: paragraphs(3))
    end
    @random.rand(MOST_COMMENTS + 1).times { |comment| at(place + comment + 1) { create_comment(issue) } }
  end

  def create_comment(issue)
    # A new object, because one keeps its first comment, and Redmine changes the row behind it.
    issue = Issue.find(issue.id)
    issue.init_journal(pick(@users), paragraphs(1))
    issue.save!
  end

  def pick(list)
    list[@random.rand(list.size)]
  end

  def words(count)
    Array.new(count) { pick(WORDS) }.join(' ')
  end

  # Text with some of the marks that Redmine formats, in its default format and in CommonMark.
  def paragraphs(count)
    Array.new(count) do |place|
      "#{words(12).capitalize}: *#{words(2)}* and @#{words(1)}@ of ##{1 + @random.rand(ISSUES)}. #{words(20).capitalize}.\n\n" \
        "* #{words(4)}\n* #{words(4)}\n* https://example.net/#{place}"
    end.join("\n\n")
  end
end

Seed.new.run
